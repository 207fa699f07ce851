"""`binaryrelax demo`: five small networks and a report, in two minutes."""

from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from binaryrelax.cli.errors import one_line_errors
from binaryrelax.cli.options import DebugOption, SeedOption
from binaryrelax.cli.speech import say
from binaryrelax.lab.demo import (
    PAGE_NAME,
    PICTURE_NAME,
    demo_recipes,
    pack_networks,
    refuse_other_folders,
    write_demo_report,
)
from binaryrelax.lab.engine import Machine, RunOptions
from binaryrelax.lab.jobs import jobs_of, prepare_folder
from binaryrelax.lab.packing import PACKED_HEADINGS, PackedRun
from binaryrelax.lab.recipes import demo_float
from binaryrelax.lab.showing import Showing


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
    with one_line_errors(debug or context.obj):
        recipes = demo_recipes(epochs)
        length = "" if epochs is None else f" --epochs {epochs}"
        again = f"binaryrelax demo --out {quote(str(out))} --seed {seed}{length} --resume"
        prepare_folder(out)
        jobs = jobs_of(recipes, seed=seed, out=out)
        refuse_other_folders(out, jobs)
        show = Showing(console, jobs, out, again)
        # On the CPU even where there is a GPU: the same bits for everybody.
        options = RunOptions(resume=resume, checkpoint_every=1)
        show.training(Machine(), options, overwrite=True)
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


def _result_table(runs: list) -> Table:
    """The results of the demo as a table for the terminal."""
    from binaryrelax.lab.report.table import SHORT_HEADINGS, table_row

    start = runs[0].result["recipe"]["phase_two_epoch"] + 1
    table = Table(
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        caption=f"Last: test accuracy (%) after the last epoch. Best: from epoch {start} on.\n"
        "To Q: distance of the final weights to the quantized set.\n"
        "Weights: those of the convolutions, scales counted.",
        caption_justify="left",
    )
    _fill(table, SHORT_HEADINGS, [table_row(finished).short_cells() for finished in runs])
    return table


def _packed_table(packed: list[PackedRun]) -> Table:
    """The packed files as a table for the terminal."""
    table = Table(
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        caption="Each network as one file, and its accuracy when loaded from there again.",
        caption_justify="left",
    )
    _fill(table, PACKED_HEADINGS, [run.cells() for run in packed])
    return table


def _fill(table: Table, headings: Sequence[str], rows: list[tuple[str, ...]]) -> None:
    for position, heading in enumerate(headings):
        table.add_column(heading, justify="right" if position else "left", no_wrap=True)
    for cells in rows:
        table.add_row(*cells)
