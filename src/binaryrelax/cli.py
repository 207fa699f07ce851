"""The command line: parses, calls the lab, prints."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from types import FrameType
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

import binaryrelax
from binaryrelax.lab.demo import demo_recipes, finished_runs, run_demo
from binaryrelax.lab.progress import LiveProgress, PlainProgress
from binaryrelax.lab.recipes import Recipe, demo_float

app = typer.Typer(
    name="binaryrelax",
    help="Train networks whose weights take 1 or 2 bits, and check that they do.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)

DebugOption = Annotated[
    bool, typer.Option("--debug", help="On an error, show where it happened (a traceback).")
]


class Stopped(BaseException):
    """A signal asked the command to end; not an `Exception`, so that nothing takes it for one."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by signal {number}")
        self.number = number


def run() -> int:
    """Runs the command with the arguments of the process and returns its exit status."""
    try:
        app()
    except KeyboardInterrupt:
        _complain("interrupted")
        return 128 + signal.SIGINT
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def _say_version(wanted: bool) -> None:
    if wanted:
        Console().print(f"binaryrelax {binaryrelax.__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def binaryrelax_command(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_say_version, is_eager=True, help="Say the version."),
    ] = False,
    debug: DebugOption = False,
) -> None:
    """Train networks whose weights take 1 or 2 bits, and check that they do."""
    context.obj = debug


@app.command()
def demo(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="The folder for results, page and picture.")] = Path(
        "demo"
    ),
    seed: Annotated[
        int, typer.Option(min=0, max=2**32 - 1, help="Everything random follows from it.")
    ] = 0,
    epochs: Annotated[
        int | None,
        typer.Option(min=1, help=f"Epochs of each network, instead of {demo_float().epochs}."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep networks that are finished already.")
    ] = False,
    debug: DebugOption = False,
) -> None:
    """Train five small networks on embedded images and write a report: about two minutes.

    A float network first; from it BWN, BinaryRelax with binary weights, TWN, and BinaryRelax with
    ternary weights. Needs neither a GPU nor a network connection.

    Examples:

        binaryrelax demo

        binaryrelax demo --out /tmp/demo --seed 1

        binaryrelax demo --epochs 3        (a quick look)

        binaryrelax demo --resume          (after an interruption)
    """
    console = Console()
    with _one_line_errors(debug or context.obj):
        recipes = demo_recipes(epochs)
        try:
            with _signals_raise():
                _train_and_report(console, out, recipes, seed=seed, resume=resume)
        except Stopped as stop:
            _say_what_was_kept(console, out, recipes, _repeat(out, seed, epochs))
            raise typer.Exit(128 + stop.number) from None


def _train_and_report(
    console: Console, out: Path, recipes: list[Recipe], *, seed: int, resume: bool
) -> None:
    """Trains the networks, writes the report, and says what there is to see."""
    if resume and not finished_runs(out, recipes):
        _say(console, f"Nothing is finished in {out} yet: starting afresh.")
    display = LiveProgress if console.is_terminal else PlainProgress
    with display(console, recipes) as listener:
        run_demo(out, recipes, seed=seed, resume=resume, listener=listener)
    from binaryrelax.lab.report import (  # not before it is needed: matplotlib loads slowly
        load_run,
        write_page,
        write_picture,
    )

    runs = [load_run(out / recipe.name) for recipe in recipes]
    page, picture = out / "report.html", out / "picture.png"
    write_page(page, runs)
    write_picture(picture, runs)
    console.print(_result_table(runs))
    _say(console, f"\nreport    {page}  (open it in a browser: curves, weights sliding into Q)")
    _say(console, f"picture   {picture}")
    _say(console, f"networks  {out}/*/final.safetensors, with their figures in result.json")


def _result_table(runs: list) -> Table:
    """The results as a table for the terminal."""
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
    for position, heading in enumerate(SHORT_HEADINGS):
        table.add_column(heading, justify="right" if position else "left", no_wrap=True)
    for finished in runs:
        table.add_row(*table_row(finished).short_cells())
    return table


def _say_what_was_kept(console: Console, out: Path, recipes: list[Recipe], command: str) -> None:
    """Two lines after an interruption: what there is, and how to go on."""
    kept = finished_runs(out, recipes)
    names = ", ".join(folder.name for folder in kept)
    there = f"{len(kept)} of {len(recipes)} networks are finished and kept in {out}: {names}"
    _say(console, f"Stopped. {there if kept else 'No network was finished, nothing was kept'}.")
    _say(console, f"To go on: {command}")


def _repeat(out: Path, seed: int, epochs: int | None) -> str:
    """The command that goes on where this one was stopped."""
    length = "" if epochs is None else f" --epochs {epochs}"
    return f"binaryrelax demo --out {quote(str(out))} --seed {seed}{length} --resume"


@contextmanager
def _one_line_errors(debug: bool) -> Iterator[None]:
    """Turns exceptions into one line and exit status 1, unless a traceback is wanted."""
    try:
        yield
    except (ValueError, OSError) as error:
        if debug:
            raise
        _complain(" ".join(str(error).split()))
        raise typer.Exit(1) from None
    except Exception as error:
        if debug or isinstance(error, typer.Exit | typer.Abort):
            raise
        _complain(f"{type(error).__name__}: {error}; --debug shows where".replace("\n", " "))
        raise typer.Exit(1) from None


@contextmanager
def _signals_raise() -> Iterator[None]:
    """Lets SIGINT and SIGTERM raise `Stopped` inside, whatever they did before."""

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_IGN)  # a second one must not disturb the farewell
        raise Stopped(number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _say(console: Console, line: str) -> None:
    console.print(line, markup=False, highlight=False, soft_wrap=True)


def _complain(message: str) -> None:
    sys.stderr.write(f"binaryrelax: {message}\n")
