"""The search for better recipes, and what came of it: the figures of docs/evidence/recipes.md."""

from __future__ import annotations

import math
from functools import partial
from math import ceil
from statistics import fmean

from binaryrelax import Certificate, certify
from binaryrelax_lab.recipes import (
    METHOD_NAMES,
    Recipe,
    RecipeName,
    cifar10_resnet20,
    find_recipe,
    search,
)
from binaryrelax_lab.recipes.demo import demo_paper
from binaryrelax_lab.recipes.name import PLUS, TUNED
from binaryrelax_lab.report.figures.evidence import Evidence
from binaryrelax_lab.report.figures.markdown import mean_text, spread_text, table
from binaryrelax_lab.report.figures.schedules import BITS, TRAINING_IMAGES, final_strength
from binaryrelax_lab.results.statistics import Spread, best, last

BITS_OF = {relaxed: bits for bits, (_, relaxed) in BITS.items()}
RECIPES = {"": "the paper's", PLUS: "`-plus`", TUNED: "`-tuned`"}


def tries(evidence: Evidence, one: search.Round) -> str:
    """A row for each change of a round: one change of -plus at a time."""
    rows = []
    for change in _changes(one):
        cells = [_try(evidence, method, change, one.base) for method in search.METHODS]
        if set(cells) != {"-"}:
            method = next(method for method in search.METHODS if change in one.of(method))
            rows.append((_words(change), final_strength(search.tried(method, change)), *cells))
    return table(("change of `-plus`", "λ at the end of Phase I", *BITS_OF.values()), rows)


def _changes(one: search.Round) -> list[search.Change]:
    """What was tried in a round with any of the methods."""
    changes: list[search.Change] = []
    for method in search.METHODS:
        changes += [change for change in one.of(method) if change not in changes]
    return changes


def _words(change: search.Change) -> str:
    return ", ".join(f"`{key}={value}`" for key, value in change.items()) or "none"


def _try(evidence: Evidence, method: str, change: search.Change, base: search.Change) -> str:
    """The accuracy on the held-out images after the last epoch, and the gain over the base."""
    name, other = (search.tried(method, c).name for c in (change, base))
    shown = spread_text(map(last, evidence.runs_of(name)))
    gains = evidence.differences((name, other), last)
    return shown if change == base or not gains else f"{shown} ({mean_text(gains)})"


def not_run(evidence: Evidence) -> str:
    """What stands in the list of the search and has not been run."""
    lines = []
    for method in search.METHODS:
        changes = [change for one in search.ROUNDS for change in one.of(method)]
        missing = [_words(c) for c in changes if not evidence.runs_of(search.tried(method, c).name)]
        lines.append(f"* {BITS_OF[method]}: {'; '.join(dict.fromkeys(missing)) or 'nothing'}")
    return "\n".join(lines)


def chosen(_: Evidence) -> str:
    """What the tuned recipes change of -plus."""
    return "\n".join(
        f"* {BITS_OF[method]}: {_words(search.CHOSEN[method])}, by which λ ends Phase I at "
        f"{final_strength(search.cifar10_resnet20_tuned(method))}"
        for method in search.METHODS
    )


def scaled(_: Evidence) -> str:
    """What the names of tries say, in epochs of 300, and what was run in 100 epochs."""
    changes: tuple[search.Change, ...] = ({"phase_two_epoch": "150"}, search.LATE_PHASE_TWO)
    rows = []
    for change in (*changes, {}, search.SMALLER_STRENGTH, search.LARGER_STRENGTH):
        named = cifar10_resnet20("binary" + PLUS).with_settings(change)
        run = search.tried("binary", change)
        rows.append((_words(change), *_scaled(named), *_scaled(run), final_strength(run)))
    headings = ("change of `-plus`", "Phase II of 300", "growth", "Phase II of 100", "growth")
    return table((*headings, "λ at the end of Phase I"), rows)


def _scaled(recipe: Recipe) -> tuple[str, str]:
    return f"from epoch {recipe.phase_two_epoch}", f"{recipe.growth:.4g}"


def margin(evidence: Evidence) -> str:
    """By how much the chosen change is ahead of the others, over both bit-widths."""
    one = search.ROUNDS[1]
    both = [c for c in _changes(one) if all(c in one.of(method) for method in search.METHODS)]
    means = {
        _words(change): fmean(found)
        for change in both
        if len(found := _lasts(evidence, change)) == len(search.METHODS)
    }
    picked = means.pop(_words(search.CHOSEN["binary"]))
    base, (next_one, second) = means[_words(one.base)], max(means.items(), key=lambda m: m[1])
    return (
        f"{picked - base:.2f} points ahead of {_words(one.base)} alone and {picked - second:.2f} "
        f"ahead of {next_one}"
    )


def _lasts(evidence: Evidence, change: search.Change) -> list[float]:
    """The last epoch of a change with each method, where it has been tried."""
    names = (search.tried(method, change).name for method in search.METHODS)
    return [run.last for name in names for run in evidence.runs_of(name)]


def demo_paper_strength(_: Evidence) -> str:
    """How λ of `demo-paper` comes to its last value."""
    recipe = demo_paper("binary")
    steps = ceil(TRAINING_IMAGES[recipe.dataset] / recipe.batch_size)
    schedule = recipe.schedule(steps)
    values = [schedule(step) for step in range(recipe.phase_two_epoch * steps)]
    num_growths = len(set(values)) - 1
    every = values.count(values[0])
    return (
        f"An epoch has {steps} steps, and λ grows every {every} of them: {num_growths} times "
        f"before Phase II. {recipe.growth} to that power is {values[-1]:.0f}"
    )


def tuned(evidence: Evidence) -> str:
    """The chosen recipes on all training images, beside the others and what is published."""
    rows = []
    for bits, (baseline, relaxed) in BITS.items():
        for method, name in ((relaxed, "BinaryRelax"), (baseline, METHOD_NAMES[baseline])):
            for end, words in RECIPES.items():
                recipe = RecipeName(cifar10_resnet20(method).name + end)
                rows += _trained(evidence, bits, f"{words}, {name}", recipe)
        rows += _published(evidence, bits)
    headings = ("weights", "recipe", "last epoch", "best of Phase II", "as published")
    return table((*headings, "epochs", "float layers", "seeds"), rows)


def _trained(evidence: Evidence, bits: str, words: str, name: RecipeName) -> list[tuple[str, ...]]:
    """The row of a recipe, if it has been run."""
    runs = evidence.runs_of(name)
    if not runs:
        return []
    recipe = find_recipe(name)
    start = find_recipe(recipe.starts_from or "")
    figures = spread_text(map(last, runs)), spread_text(map(best, runs)), ""
    epochs = f"{start.epochs} float + {recipe.epochs}"
    return [(bits, words, *figures, epochs, "last", str(len(runs)))]


def _published(evidence: Evidence, bits: str) -> list[tuple[str, ...]]:
    """Rows of what others report."""
    rows: list[tuple[str, ...]] = []
    for record in evidence.read("results/published.json", "records"):
        if record["weights"] == bits:
            accuracy = Spread(record["accuracy"], record["deviation"], 0).text()
            setting = str(record["epochs"]), record["float_layers"]
            rows.append((bits, record["who"], "", "", accuracy, *setting, ""))
    return rows


def networks(evidence: Evidence) -> str:
    """The networks that are shipped, as their files and results say."""
    rows = []
    for record in evidence.read("results/findings/networks.json", "records"):
        name = record["file"]
        certificate = certify(evidence.root / "networks" / name)
        bits = 8 * sum(layer.num_bytes for layer in certificate.layers)
        weights = sum(math.prod(layer.shape) for layer in certificate.layers)
        rows.append(
            (
                f"[{name}](../../networks/{name})",
                f"{certificate.file_bytes:,}",
                f"{certificate.saving:.1f}×",
                f"{bits / weights:.2f}",
                f"{_accuracy_when_trained(evidence, certificate):.2f}",
                f"{record['accuracy']:.2f}",
                "yes" if certificate.ok else "**no**",
            )
        )
    headings = ("file", "bytes", "smaller than float32", "bits per quantized weight")
    return table((*headings, "accuracy when trained", "of the file", "certified"), rows)


def _accuracy_when_trained(evidence: Evidence, certificate: Certificate) -> float | None:
    """That of the run that the file says it comes from."""
    about = certificate.about
    runs = {run.seed: run for run in evidence.runs_of(about["name"])}
    run = runs[int(about["seed"])]
    return run.last_recalibrated if about.get("statistics") == "recalibrated" else run.last


SECTIONS = {
    "recipes-first-round": partial(tries, one=search.ROUNDS[0]),
    "recipes-second-round": partial(tries, one=search.ROUNDS[1]),
    "recipes-not-run": not_run,
    "recipes-scaled": scaled,
    "recipes-margin": margin,
    "recipes-demo-paper-strength": demo_paper_strength,
    "recipes-tuned": tuned,
    "recipes-chosen": chosen,
    "recipes-networks": networks,
}
