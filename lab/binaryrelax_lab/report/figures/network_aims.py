"""What the native runtime wanted to reach, and whether it did."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from binaryrelax_lab.report.figures.evidence import Evidence
from binaryrelax_lab.report.figures.markdown import NOTHING, table
from binaryrelax_lab.report.figures.measured_networks import (
    MODES,
    NAMES,
    ONE_IMAGE,
    WIDTHS,
    MeasuredNetworks,
    advantage,
    ours,
)
from binaryrelax_lab.report.figures.network_times import ratio_text

OVER_INT8 = {"resnet20": 1 / 0.7, "resnet18": 1.3, "vgg16": 1.5}  # one image of 32 pixels, fast
POINTS = 0.1  # of accuracy between both modes
FILE, WHEEL = 1.5e6, 3e6  # bytes: of that file, of our runtime
SMALL_FILE = {"network": "resnet18", "dataset": "cifar10", "file": "ours, fast, 1 bit"}
OVER_TORCH = 10  # times sooner a first answer
ACCELERATED = "accelerated model"


@dataclass(frozen=True)
class Aim:
    """A figure that is wanted and the one that was found, None where it was not measured."""

    words: str
    wanted: str
    found: str
    is_reached: bool | None

    @property
    def cells(self) -> tuple[str, ...]:
        """Its row of the table."""
        reached = {True: "yes", False: "**no**", None: NOTHING}[self.is_reached]
        return self.words, self.wanted, self.found, reached


def aims(evidence: Evidence) -> str:
    """A row for each aim."""
    measured = MeasuredNetworks.of(evidence)
    rows = [aim.cells for aims in AIMS for aim in aims(measured)]
    return table(("aim", "wanted", "found", "reached"), rows)


def _over_int8(measured: MeasuredNetworks) -> Iterator[Aim]:
    for title, engines in measured.times(ONE_IMAGE).items():
        wanted = OVER_INT8.get(title.network)
        if wanted is None:
            continue
        found = [advantage(engines, ours("fast", weights), "int8") for weights in WIDTHS]
        known = [ratio for ratio in found if ratio is not None]
        yield Aim(
            f"{title}, one image, `fast`: times as fast as the best int8 engine",
            f"{wanted:.2f}×",
            " / ".join(f"{ratio_text(r)} ({w})" for r, w in zip(found, WIDTHS, strict=True)),
            min(known) >= wanted if known else None,
        )


def _over_float32(measured: MeasuredNetworks) -> Iterator[Aim]:
    found = [
        (ratio, f"{title}, batch {batch}, {mode}, {weights}")
        for batch in measured.batches
        for title, engines in measured.times(batch).items()
        for mode in MODES
        for weights in WIDTHS
        if (ratio := advantage(engines, ours(mode, weights), "float32")) is not None
    ]
    if found:
        least, where = min(found)
        behind = sum(ratio < 1 for ratio, _ in found)
        words = f"{ratio_text(least)} ({where}); below 1× in {behind} of {len(found)}"
        yield Aim(
            "everywhere: times as fast as the best float32 engine, at least",
            "1.00×", words, least >= 1,
        )  # fmt: skip


def _over_torch(measured: MeasuredNetworks) -> Iterator[Aim]:
    found = [
        (engines["torch float32"]["seconds"] / record["seconds"], f"{title}, batch {batch}, {name}")
        for batch in measured.batches
        for title, engines in measured.times(batch).items()
        for name, record in engines.items()
        if name.startswith(ACCELERATED) and "torch float32" in engines
    ]
    if found:
        least, where = min(found)
        words = "a PyTorch model after `accelerate`: times as fast as torch float32, at least"
        yield Aim(words, "1.00×", f"{ratio_text(least)} ({where})", least >= 1)


def _accuracy(measured: MeasuredNetworks) -> Iterator[Aim]:
    found: dict[tuple[str, str], dict[str, float]] = {}
    for record in measured.content["accuracies"]:
        key = f"{NAMES[record['network']]}, {record['dataset']}", record["weights"]
        found.setdefault(key, {})[record["engine"]] = record["accuracy"]
    for (network, weights), engines in found.items():
        if {"ours, fast", "ours, exact"} <= engines.keys():
            points = engines["ours, fast"] - engines["ours, exact"]
            words = f"{network}, {weights}: points of accuracy between `fast` and `exact`, at most"
            yield Aim(words, f"{POINTS}", f"{points:+.2f}", abs(points) <= POINTS + 1e-9)


def _sizes(measured: MeasuredNetworks) -> Iterator[Aim]:
    content = measured.content
    for record in content["files"]:
        if all(record[key] == value for key, value in SMALL_FILE.items()):
            yield _size("file of ResNet-18, 10 classes, 1 bit, `fast`", record["bytes"], FILE)
    for record in content["runtimes"]:
        if record["engine"] == "binaryrelax_native":
            yield _size("our runtime's wheel", record["wheel_bytes"], WHEEL)


def _size(words: str, found: int, most: float) -> Aim:
    wanted, is_so = (f"{size / 1e6:.2f} MB" for size in (most, found))
    return Aim(f"{words}, at most", wanted, is_so, found <= most)


def _first_answer(measured: MeasuredNetworks) -> Iterator[Aim]:
    seconds = {r["engine"]: r["seconds"] for r in measured.content["first_answers"]}
    for engine, wanted in (("torch float32", OVER_TORCH), ("ONNX Runtime int8", 1)):
        if engine in seconds and "ours, fast" in seconds:
            ratio = seconds[engine] / seconds["ours, fast"]
            words = f"first answer of a new process: times as soon as {engine}"
            yield Aim(words, f"{wanted}×", f"{ratio:.1f}×", ratio >= wanted)


AIMS: tuple[Callable[[MeasuredNetworks], Iterator[Aim]], ...] = (
    _over_int8,
    _over_float32,
    _over_torch,
    _accuracy,
    _sizes,
    _first_answer,
)
SECTIONS = {"networks-aims": aims}
