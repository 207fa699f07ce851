"""What `bench networks` has measured, read once: who ran which network how fast, and the best."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from binaryrelax_lab.recipes import NETWORK_NAMES
from binaryrelax_lab.report.figures.evidence import Evidence, Record

NETWORKS = "benchmarks/results/networks.json"
NAMES = NETWORK_NAMES | {"mobilenet-v2": "MobileNetV2"}  # the latter has no recipe
WIDTHS = ("1 bit", "ternary")
MODES = ("exact", "fast")
RIVALS = ("torch", "ONNX Runtime", "OpenVINO")
ONE_IMAGE = 1


@dataclass(frozen=True)
class Title:
    """A network, and pixels along an edge of its images."""

    network: str
    side: int

    def __str__(self) -> str:
        return f"{NAMES[self.network]}, {self.side} px"


Engines = dict[str, Record]  # of one network and batch size, by the engine's name


@dataclass(frozen=True)
class MeasuredNetworks:
    """The content of ``networks.json``."""

    content: Record

    @classmethod
    def of(cls, evidence: Evidence) -> MeasuredNetworks:
        """What is committed."""
        return cls(evidence.read(NETWORKS))

    @cached_property
    def batches(self) -> list[int]:
        """How many images a call takes, in the order measured."""
        return list(dict.fromkeys(record["batch"] for record in self.content["records"]))

    def times(self, batch: int) -> dict[Title, Engines]:
        """By network and by engine, what was measured at a batch size."""
        found: dict[Title, Engines] = {}
        for record in self.content["records"]:
            if record["batch"] == batch:
                title = Title(record["network"], record["side"])
                found.setdefault(title, {})[self.engine(record)] = record
        return found

    def engine(self, record: Record) -> str:
        """The engine, with the width of weights if it runs several."""
        engine, weights = record["engine"], record["weights"]
        return f"{engine}, {weights}" if engine in self._of_several_widths else engine

    @cached_property
    def _of_several_widths(self) -> set[str]:
        pairs = {(r["engine"], r["weights"]) for r in self.content["records"]}
        engines = [engine for engine, _ in pairs]
        return {engine for engine in engines if engines.count(engine) > 1}

    @property
    def machine(self) -> str:
        """What it ran on, and how."""
        content, machine = self.content, self.content["machine"]
        engines = ", ".join(f"{name} {version}" for name, version in content["engines"].items())
        shared = " Others used the machine meanwhile." if content["machine_was_shared"] else ""
        return (
            f"{machine['cpu']} ({', '.join(content['instructions'])}), {machine['threads']} "
            f"threads. {engines}. {content['repetitions']} rounds in which engines take "
            f"turns.{shared}"
        )


def ours(mode: str, weights: str) -> str:
    """Our runtime."""
    return f"ours, {mode}, {weights}"


def best(engines: Engines, precision: str) -> str | None:
    """The fastest of the other engines in "float32" or "int8"; None if there is none."""
    rivals = [name for name in engines if name in {f"{rival} {precision}" for rival in RIVALS}]
    return min(rivals, key=lambda name: engines[name]["seconds"], default=None)


def advantage(engines: Engines, engine: str, precision: str) -> float | None:
    """How many times faster an engine is than the best of the others; None if one is missing."""
    rival = best(engines, precision)
    if rival is None or engine not in engines:
        return None
    ratio: float = engines[rival]["seconds"] / engines[engine]["seconds"]
    return ratio
