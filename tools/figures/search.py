"""The search for better recipes, and what came of it: the tables of docs/recipes.md."""

from __future__ import annotations

import math
from statistics import fmean

from binaryrelax import certify
from binaryrelax.lab.recipes import METHOD_NAMES, find_recipe
from binaryrelax.lab.recipes.recipe import PLUS, TUNED
from binaryrelax.lab.recipes.search import METHODS, ROUNDS, Change, Round, tried
from binaryrelax.lab.recipes.tuned import CHOSEN, cifar10_resnet20_tuned
from binaryrelax.lab.report.spread import Spread
from figures.common import RESULTS, ROOT, read, spread, table
from figures.evidence import BITS, best, differences, final_strength, last, runs_of

BITS_OF = {relaxed: bits for bits, (_, relaxed) in BITS.items()}


def first_round() -> str:
    """One change of -plus at a time."""
    return _tries(ROUNDS[0])


def second_round() -> str:
    """The same on top of more weight decay."""
    return _tries(ROUNDS[1])


def _tries(one: Round) -> str:
    rows = []
    for change in _changes(one):
        cells = [_try(method, change, one.base) for method in METHODS]
        if set(cells) != {"-"}:
            rows.append((_words(change), _final_strength(one, change), *cells))
    return table(("change of `-plus`", "λ at the end of Phase I", *BITS_OF.values()), rows)


def _final_strength(one: Round, change: Change) -> str:
    """The same with each of the methods that it was tried with."""
    method = next(method for method in METHODS if change in one.of(method))
    return final_strength(tried(method, change))


def _changes(one: Round) -> list[Change]:
    """What was tried in a round with any of the methods."""
    changes: list[Change] = []
    for method in METHODS:
        changes += [change for change in one.of(method) if change not in changes]
    return changes


def _words(change: Change) -> str:
    return ", ".join(f"`{key}={value}`" for key, value in change.items()) or "none"


def _try(method: str, change: Change, base: Change) -> str:
    """The accuracy on the held-out images after the last epoch, and the gain over the base."""
    name, other = (tried(method, c).name for c in (change, base))
    shown = spread(map(last, runs_of(name).values()))
    gains = differences(name, other, last)
    if change == base or not gains:
        return shown
    return f"{shown} ({spread([fmean(gains)], signed=True)})"


def not_run() -> str:
    """What stands in the list of the search and has not been run."""
    lines = []
    for method in METHODS:
        changes = [
            _words(change)
            for one in ROUNDS
            for change in one.of(method)
            if not runs_of(tried(method, change).name)
        ]
        lines.append(f"* {BITS_OF[method]}: {'; '.join(dict.fromkeys(changes)) or 'nothing'}")
    return "\n".join(lines)


def tuned() -> str:
    """The chosen recipes on all training images, beside the others and what is published."""
    ours = {"": "the paper's", PLUS: "`-plus`", TUNED: "`-tuned`"}
    rows = []
    for bits, (baseline, method) in BITS.items():
        cells = [(method, end, f"{words}, BinaryRelax") for end, words in ours.items()]
        controls = [
            (baseline, end, f"{words}, {METHOD_NAMES[baseline]}") for end, words in ours.items()
        ]
        for kind, end, words in (*cells, *controls):
            recipe = find_recipe(f"cifar10-resnet20-{kind}{end}")
            runs = runs_of(recipe.name).values()
            if runs:
                epochs = f"{find_recipe(recipe.starts_from).epochs} float + {recipe.epochs}"
                figures = spread(map(last, runs)), spread(map(best, runs)), ""
                rows.append((bits, words, *figures, epochs, "last", str(len(runs))))
        rows += _published(bits)
    headings = ("weights", "recipe", "last epoch", "best of Phase II", "as published")
    return table((*headings, "epochs", "float layers", "seeds"), rows)


def _published(bits: str) -> list[tuple[str, ...]]:
    """Rows of what others report."""
    rows = []
    for record in read(RESULTS / "published.json")["records"]:
        accuracy = Spread(record["accuracy"], record["deviation"], 0).text()
        setting = str(record["epochs"]), record["float_layers"]
        if record["weights"] == bits:
            rows.append((bits, record["who"], "", "", accuracy, *setting, ""))
    return rows


def chosen() -> str:
    """What the tuned recipes change of -plus."""
    return "\n".join(
        f"* {BITS_OF[method]}: {_words(change)}, by which λ ends Phase I at "
        f"{final_strength(cifar10_resnet20_tuned(method))}"
        for method, change in ((method, CHOSEN[method]) for method in METHODS)
    )


def networks() -> str:
    """The networks that are shipped, as their files and results say."""
    tries = read(RESULTS / "findings" / "networks.json")["records"]
    rows = []
    for record in tries:
        certificate = certify(ROOT / "networks" / record["file"])
        run = runs_of(certificate.about["name"])[int(certificate.about["seed"])]
        bits = 8 * sum(layer.num_bytes for layer in certificate.layers)
        weights = sum(math.prod(layer.shape) for layer in certificate.layers)
        link = f"[{record['file']}](../networks/{record['file']})"
        size = f"{certificate.file_bytes:,}", f"{certificate.saving:.1f}×", f"{bits / weights:.2f}"
        is_recalibrated = certificate.about.get("statistics") == "recalibrated"
        trained = run.last_recalibrated if is_recalibrated else run.last
        accuracies = f"{trained:.2f}", f"{record['accuracy']:.2f}"
        rows.append((link, *size, *accuracies, "yes" if certificate.ok else "**no**"))
    headings = ("file", "bytes", "smaller than float32", "bits per quantized weight")
    return table((*headings, "accuracy when trained", "of the file", "certified"), rows)


SECTIONS = {
    "recipes-first-round": first_round,
    "recipes-second-round": second_round,
    "recipes-not-run": not_run,
    "recipes-tuned": tuned,
    "recipes-chosen": chosen,
    "recipes-networks": networks,
}
