"""`binaryrelax report`: tables and curves of finished runs."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from binaryrelax.cli.console import say
from binaryrelax.cli.errors import UsageError
from binaryrelax.cli.options import DebugOption
from binaryrelax_lab.commands.errors import lab_errors

SUFFIXES = (".html", ".md")


def report(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(help="Where result files are, at any depth.")],
    out: Annotated[Path, typer.Option(help="The page to write: FILE.html or FILE.md.")] = Path(
        "report.html"
    ),
    debug: DebugOption = False,
) -> None:
    """Write the paper's tables and curves beside ours as one self-contained page.

    Examples:

        binaryrelax report results --out report.html

        binaryrelax report campaign/results

        binaryrelax report results --out tables.md      (the tables alone, as Markdown)
    """
    from binaryrelax_lab.report.results_page import write_report

    console = Console()
    with lab_errors(context, debug):
        if out.suffix not in SUFFIXES:
            raise UsageError(f"--out {out}: its name must end with {' or '.join(SUFFIXES)}")
        if out.is_dir():
            raise ValueError(f"--out {out} is a folder; give the name of a file")
        summary = write_report(folder, out)
        for note in summary.notes:
            say(console, f"note: {note}")
        say(console, f"{summary.num_runs} runs of {summary.num_recipes} recipes in {out}")
