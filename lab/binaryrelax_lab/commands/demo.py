"""`binaryrelax demo`: five small networks and a report, in two minutes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from binaryrelax.cli.console import say
from binaryrelax.cli.options import DebugOption
from binaryrelax_lab.commands.errors import lab_errors, prepare_folder
from binaryrelax_lab.commands.options import SeedOption
from binaryrelax_lab.commands.training import ShownTraining
from binaryrelax_lab.demo import (
    PAGE_NAME,
    PICTURE_NAME,
    demo_recipes,
    pack_networks,
    refuse_other_folders,
    write_demo_report,
)
from binaryrelax_lab.engine import Machine, RunOptions, jobs_of
from binaryrelax_lab.recipes import demo_float
from binaryrelax_lab.results import RunResult

if TYPE_CHECKING:
    from binaryrelax_lab.report.demo_page import PackedRow, TableRow

SHORT_HEADINGS = ("Method", "Last", "Best", "To Q", "Bits/weight", "Weights", "Saving")


def demo(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="The folder for results, page and picture.")] = Path(
        "demo"
    ),
    seed: SeedOption = 0,
    epochs: Annotated[
        int | None,
        typer.Option(min=1, help=f"Epochs of each network, instead of {demo_float().epochs}."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep what is finished and go on from checkpoints.")
    ] = False,
    debug: DebugOption = False,
) -> None:
    """Train five small networks on embedded images and write a report: about two minutes.

    A float network first; from it BWN, BinaryRelax with binary weights, TWN, and BinaryRelax with
    ternary weights. Needs neither a GPU nor a network connection. An earlier demo in the folder is
    replaced, nothing else.

    Examples:

        binaryrelax demo

        binaryrelax demo --out demo-seed1 --seed 1

        binaryrelax demo --epochs 3        (a quick look)

        binaryrelax demo --resume          (after an interruption)
    """
    console = Console()
    with lab_errors(context, debug):
        recipes = demo_recipes(epochs)
        length = "" if epochs is None else f" --epochs {epochs}"
        again = f"binaryrelax demo --out {quote(str(out))} --seed {seed}{length} --resume"
        prepare_folder(out)
        jobs = jobs_of(recipes, seed=seed, out=out)
        refuse_other_folders(out, jobs)
        show = ShownTraining(console, jobs, out, again)
        # On the CPU even where there is a GPU: the same bits for everybody.
        options = RunOptions(resume=resume, checkpoint_every=1)
        show.run(Machine(), options, overwrite=True)
        packed = pack_networks(out, recipes)
        runs = write_demo_report(out, recipes, packed)
    console.print(_result_table(runs))
    console.print(_packed_table(packed))
    say(console, f"\nreport    {out / PAGE_NAME}  (open it in a browser: curves, weights)")
    say(console, f"picture   {out / PICTURE_NAME}")
    say(console, f"networks  {out}/*/final.safetensors, with their figures in result.json")
    say(
        console, f"packed    {out}/*/packed.safetensors  (`binaryrelax certify` shows their layers)"
    )


def _result_table(runs: list[RunResult]) -> Table:
    """The results of the demo as a table for the terminal."""
    from binaryrelax_lab.report.demo_page import table_row

    start = runs[0].recipe.phase_two_epoch + 1
    table = Table(
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        caption=f"Last: test accuracy (%) after the last epoch. Best: from epoch {start} on.\n"
        "To Q: distance of the final weights to the quantized set.\n"
        "Weights: those of the convolutions, scales counted.",
        caption_justify="left",
    )
    _fill(table, SHORT_HEADINGS, [_short_cells(table_row(run)) for run in runs])
    return table


def _short_cells(row: TableRow) -> tuple[str, ...]:
    """The row as text that fits a terminal, in the order of `SHORT_HEADINGS`."""
    return (
        row.label,
        f"{row.last:.2f}",
        f"{row.best:.2f}",
        "-" if row.distance is None else f"{row.distance:.3g}",
        f"{row.bits_per_weight:.5g}",
        f"{row.layers_kb:.1f} KB",
        f"{row.layers_saving:.1f}×",
    )


def _packed_table(packed: list[PackedRow]) -> Table:
    """The packed files as a table for the terminal."""
    from binaryrelax_lab.report.demo_page import PACKED_HEADINGS

    table = Table(
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        caption="Each network as one file, and its accuracy when loaded from there again.",
        caption_justify="left",
    )
    _fill(table, PACKED_HEADINGS, [row.cells() for row in packed])
    return table


def _fill(table: Table, headings: Sequence[str], rows: list[tuple[str, ...]]) -> None:
    for position, heading in enumerate(headings):
        table.add_column(heading, justify="right" if position else "left", no_wrap=True)
    for cells in rows:
        table.add_row(*cells)
