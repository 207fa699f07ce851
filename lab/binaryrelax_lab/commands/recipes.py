"""`binaryrelax recipes`: what there is to train."""

import json
import sys
from typing import Annotated

import typer
from rich.console import Console

from binaryrelax.cli.options import DebugOption
from binaryrelax_lab.recipes import ALL_RECIPES, LANGUAGE_TABLES, describe_recipes


def recipes(
    context: typer.Context,
    as_json: Annotated[
        bool, typer.Option("--json", help="All settings of all recipes, as one JSON array.")
    ] = False,
    debug: DebugOption = False,
) -> None:
    """List every recipe with its numbers and the paper's figure.

    Examples:

        binaryrelax recipes

        binaryrelax recipes --json | jq '.[] | select(.network == "resnet20")'
    """
    if as_json:
        sys.stdout.write(json.dumps(describe_recipes(), indent=1, allow_nan=False) + "\n")
        return
    from binaryrelax_lab.commands.recipe_listing import language_lines, recipes_table

    Console().print(recipes_table(ALL_RECIPES))
    Console().print(language_lines(LANGUAGE_TABLES))
