"""`binaryrelax theory`: the figures and numbers of docs/evidence/theory.md."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from binaryrelax.cli.console import say
from binaryrelax.cli.errors import one_line_errors, usage_errors
from binaryrelax.cli.options import DebugOption


def theory(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="The folder for the figures.")] = Path("theory"),
    results: Annotated[
        Path | None, typer.Option(help="The folder for the numbers, if not beside the figures.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="One part, not all; may be given several times.")
    ] = None,
    debug: DebugOption = False,
) -> None:
    """Compute and draw section 4 of the paper: about a minute and a half on one core.

    One PNG file for each figure, and its numbers as JSON. Files of other names in the folders stay
    as they are. The numbers are the same to the last digit in each run.

    Examples:

        binaryrelax theory --out theory

        binaryrelax theory --only stagnation --only local-minima

        binaryrelax theory --out docs/images/theory --results results/theory   (what docs show)
    """
    console = Console()
    with one_line_errors(context, debug):
        from binaryrelax_lab.commands.errors import prepare_folder
        from binaryrelax_lab.studies.theory.catalogue import chosen_parts, write_part

        with usage_errors("--only "):
            parts = chosen_parts(only or [])
        for folder in (out, results or out):
            prepare_folder(folder)
        total = 0.0
        for part in parts:
            done = write_part(part, out, results or out)
            total += done.seconds
            say(console, f"{part.words:<42} {done.seconds:5.1f} s  {done.files[0]}")
        where = f"figures in {out}, numbers in {results}" if results else f"all in {out}"
        say(console, f"{len(parts)} parts in {total:.0f} seconds; {where}")
