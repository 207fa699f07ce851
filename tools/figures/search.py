"""The search for better recipes, and what came of it: the tables of docs/recipes.md."""

from __future__ import annotations

import math
from statistics import fmean

from binaryrelax import certify
from binaryrelax.lab.recipes import cifar10_resnet20
from binaryrelax.lab.recipes.search import (
    EPOCHS,
    FIRST_ROUND,
    FIRST_ROUND_OF,
    HELD_OUT,
    MORE_DECAY,
    SECOND_ROUND,
    SECOND_ROUND_OF,
    Change,
)
from binaryrelax.lab.recipes.tuned import CHOSEN
from figures.common import RESULTS, ROOT, read, table
from figures.evidence import best, last, runs_of, spread

METHODS = {"binary": "1 bit", "ternary": "ternary"}
PUBLISHED = {  # last epoch of ResNet-20; the best figures of others, and where they stand
    "binary": "90.48 ± 0.26 (PARQ); 91.32 (ReSTE: 1000 epochs, first and last layer float)",
    "ternary": "91.45 ± 0.11 (PARQ)",
}


def recipe_name(method: str, change: Change) -> str:
    """The recipe of a try."""
    plus = cifar10_resnet20(f"{method}-plus")
    return plus.with_settings(change | HELD_OUT).with_epochs(EPOCHS).name


def first_round() -> str:
    """One change of -plus at a time."""
    own = [change for changes in FIRST_ROUND_OF.values() for change in changes]
    return _tries([*FIRST_ROUND, *own], against={})


def second_round() -> str:
    """The same on top of more weight decay."""
    own = [change for changes in SECOND_ROUND_OF.values() for change in changes]
    tries = [{}, *SECOND_ROUND, *own]
    return _tries([MORE_DECAY | change for change in tries], against=MORE_DECAY)


def _tries(changes: list[Change], *, against: Change) -> str:
    rows = []
    for change in changes:
        cells = [_try(method, change, against) for method in METHODS]
        if any(cells):
            rows.append((_words(change), *(cell or "-" for cell in cells)))
    return table(("change", *METHODS.values()), rows)


def _words(change: Change) -> str:
    return ", ".join(f"`{key}={value}`" for key, value in change.items()) or "none: `-plus`"


def _try(method: str, change: Change, against: Change) -> str | None:
    """The accuracy on the held-out images after the last epoch, and the gain over another try."""
    runs, others = (runs_of(recipe_name(method, c)) for c in (change, against))
    if not runs:
        return None
    figure = spread(map(last, runs.values()))
    shared = runs.keys() & others.keys()
    if change == against or not shared:
        return figure
    gain = fmean(last(runs[seed]) - last(others[seed]) for seed in shared)
    return f"{figure} ({gain:+.2f})".replace("-", "−")


def tuned() -> str:
    """The chosen recipes on all training images, beside the paper's and -plus."""
    rows = []
    for method, bits in METHODS.items():
        for end, words in (("", "the paper's"), ("-plus", "`-plus`"), ("-tuned", "`-tuned`")):
            runs = runs_of(f"cifar10-resnet20-{method}{end}").values()
            if runs:
                figures = spread(map(last, runs)), spread(map(best, runs))
                rows.append((bits, words, *figures, str(len(runs))))
        rows.append((bits, "best published", PUBLISHED[method], "-", "-"))
    return table(("weights", "recipe", "last", "best of Phase II", "seeds"), rows)


def recalibration() -> str:
    """Batch statistics measured anew after training."""
    records = read(RESULTS / "findings" / "recalibration.json")["records"]
    rows = []
    for name in dict.fromkeys(record["recipe"] for record in records):
        mine = [record for record in records if record["recipe"] == name]
        figures = [spread(r[key] for r in mine) for key in ("as_trained", "recalibrated")]
        gains = spread((r["recalibrated"] - r["as_trained"] for r in mine), signed=True)
        rows.append((f"`{name}`", *figures, gains, str(len(mine))))
    return table(("recipe", "as trained", "recalibrated", "gain", "seeds"), rows)


def networks() -> str:
    """The networks that are shipped, as their files and results say."""
    records = read(RESULTS / "findings" / "recalibration.json")["records"]
    again = {(record["recipe"], record["seed"]): record["as_trained"] for record in records}
    rows = []
    for file in sorted((ROOT / "networks").glob("*.safetensors")):
        certificate = certify(file)
        run = runs_of(certificate.about["name"])[int(certificate.about["seed"])]
        widths = sum(layer.num_bytes for layer in certificate.layers) * 8
        weights = sum(math.prod(layer.shape) for layer in certificate.layers)
        rows.append(
            (
                f"[{file.name}](../networks/{file.name})",
                f"{certificate.file_bytes:,}",
                f"{widths / weights:.2f}",
                f"{certificate.saving:.1f}×",
                f"{last(run):.2f}",
                f"{again[run.name, run.seed]:.2f}",
                "yes" if certificate.ok else "**no**",
            )
        )
    headings = ("network", "bytes", "bits per quantized weight", "smaller than float32")
    return table((*headings, "test accuracy, last epoch", "on a CPU", "certified"), rows)


def chosen() -> str:
    """What the tuned recipes change of -plus."""
    return "\n".join(f"* {bits}: {_words(CHOSEN[method])}" for method, bits in METHODS.items())


SECTIONS = {
    "recipes-first-round": first_round,
    "recipes-second-round": second_round,
    "recipes-tuned": tuned,
    "recipes-chosen": chosen,
    "recipes-recalibration": recalibration,
    "recipes-networks": networks,
}
