"""The recipes as a table for the terminal."""

import textwrap
from collections.abc import Iterable, Mapping

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from binaryrelax_lab.recipes.image_recipe import ImageRecipe
from binaryrelax_lab.recipes.language_recipe import LanguageRecipe
from binaryrelax_lab.recipes.learning_rate import LearningRateSchedule, Steps
from binaryrelax_lab.recipes.name import LANGUAGE_METHOD_NAMES, METHOD_NAMES
from binaryrelax_lab.recipes.recipe import Recipe

HOW_TO_READ = """\
A recipe is called ROW-COLUMN, for example cifar10-resnet20-binary; rows with
-plus have another of each, such as cifar10-resnet20-binary-plus, and those
with -tuned one more: cifar10-resnet20-binary-tuned (docs/evidence/recipes.md).
"exact" is short for ternary-exact: BinaryRelax with the exact projection.
Figures are the paper's, in percent, top-1; a dot: not in the paper. All
settings of all recipes: --json. More were made to ask questions, such as the
tries of cifar10-search: `binaryrelax campaign --help` names these sets.
"""
HEADINGS = {"ternary-exact": "exact"}
PARTS = {1: "each epoch", 0.5: "each half epoch", 0.25: "each quarter epoch"}


LANGUAGE = """\
Language models are called lm-SIZE-METHOD: {families}, by
{methods}.
With -from-float at the end they convert the trained float network. They need
a folder with train.txt and val.txt, or take a novel that comes with the lab.
"""


def language_lines(tables: Mapping[str, Iterable[LanguageRecipe]]) -> Text:
    """What language models there are, in a few lines."""
    methods = textwrap.fill(", ".join(LANGUAGE_METHOD_NAMES), 78, break_on_hyphens=False)
    lines = [LANGUAGE.format(families=" and ".join(tables), methods=methods)]
    for name, recipes in tables.items():
        recipe = next(iter(recipes))
        tokens = recipe.epochs * recipe.steps_per_epoch * recipe.batch_size * recipe.context
        lines.append(
            f"{name}\n    {recipe.epochs * recipe.steps_per_epoch:,} steps of {recipe.batch_size} "
            f"windows of {recipe.context} tokens, {tokens / 1e6:.3g} million in all,\n    "
            f"AdamW at lr {recipe.lr:g}, vocabulary {recipe.vocabulary:,}, "
            f"Phase II from epoch {recipe.phase_two_epoch} of {recipe.epochs}"
        )
    return Text("\n".join(lines))


def recipes_table(recipes: Iterable[Recipe]) -> Group:
    """A line per network and dataset, a column per method; it fits 80 characters."""
    families: dict[str, list[Recipe]] = {}
    for recipe in recipes:
        families.setdefault(recipe.name.family, []).append(recipe)
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("recipe", no_wrap=True)
    for heading in (*METHOD_NAMES, "also"):
        table.add_column(HEADINGS.get(heading, heading), justify="right", no_wrap=True)
    before = None
    for family, members in families.items():
        if before not in (None, members[0].dataset):
            table.add_section()
        before = members[0].dataset
        table.add_row(family, *_figures(members), _variations(members))
    return Group(table, Text("\n".join([HOW_TO_READ, *_settings_lines(families)])))


def _variations(members: list[Recipe]) -> str:
    return " ".join(
        dict.fromkeys(recipe.name.variation for recipe in members if recipe.name.variation)
    )


def _figures(members: list[Recipe]) -> list[str]:
    by_method = {recipe.method: recipe for recipe in members if not recipe.name.variation}
    return [_figure(by_method.get(method)) for method in METHOD_NAMES]


def _figure(recipe: Recipe | None) -> str:
    if recipe is None:
        return ""
    return "·" if recipe.paper_accuracy is None else f"{recipe.paper_accuracy:.2f}"


def _settings_lines(families: dict[str, list[Recipe]]) -> list[str]:
    """A line for each set of settings, with the datasets that have it."""
    owners: dict[str, list[str]] = {}
    for members in families.values():
        for relaxed in (recipe for recipe in members if recipe.is_relaxed):
            owner = relaxed.dataset + relaxed.name.variation
            known = owners.setdefault(_settings(relaxed), [])
            known.extend([owner] * (owner not in known))
    return [f"{', '.join(names)}\n    {settings}" for settings, names in owners.items()]


def _settings(recipe: Recipe) -> str:
    momentum = f"momentum {recipe.momentum:g}, " if isinstance(recipe, ImageRecipe) else ""
    return (
        f"{recipe.epochs} epochs of batch {recipe.batch_size}, {momentum}"
        f"lr {recipe.lr:g} {_falling(recipe.lr_schedule)},\n    "
        f"weight decay {recipe.weight_decay:g}, "
        f"λ from {recipe.initial_strength:g}, ×{recipe.growth:.4g} {_each(recipe)}, "
        f"∞ from epoch {recipe.phase_two_epoch} on"
    )


def _each(recipe: Recipe) -> str:
    every = recipe.growth_every_epochs or 0.0
    return PARTS.get(every, f"each {every:g} epochs")


def _falling(schedule: LearningRateSchedule) -> str:
    if isinstance(schedule, Steps):
        return f"(×{schedule.factor_each:g} at {', '.join(map(str, schedule.milestones))})"
    return f"({type(schedule).__name__.lower()})"
