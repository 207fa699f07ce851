"""The command line: parses, calls the lab, prints."""

import json
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

import binaryrelax
from binaryrelax.lab.campaign import Campaign, Deadline, recipes_of_table
from binaryrelax.lab.data import load_dataset
from binaryrelax.lab.demo import demo_recipes, write_demo_report
from binaryrelax.lab.engine import Machine, RunOptions, this_machine, write_json
from binaryrelax.lab.jobs import job_with_ancestor, jobs_of, prepare_folder
from binaryrelax.lab.recipes import ALL_RECIPES, demo_float, describe_recipes, find_recipe
from binaryrelax.lab.showing import Showing, show_campaign, summary_line
from binaryrelax.lab.stopping import Stopped, stop_wishes
from binaryrelax.lab.transfer import export_files, import_files

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
SeedOption = Annotated[
    int, typer.Option(min=0, max=2**32 - 1, help="Everything random follows from it.")
]
DataOption = Annotated[
    Path | None, typer.Option(help="The folder or archive with the images; ./data if not given.")
]
DownloadOption = Annotated[
    bool, typer.Option("--download", help="Fetch CIFAR into that folder if it is not there.")
]
PrecisionOption = Annotated[
    str | None, typer.Option(help="bf16 or fp32; bf16 on a GPU, fp32 on a CPU if not given.")
]
DeterministicOption = Annotated[
    bool, typer.Option("--deterministic", help="The same bits in every run on the same GPU.")
]


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
        length = "" if epochs is None else f" --epochs {epochs}"
        again = f"binaryrelax demo --out {quote(str(out))} --seed {seed}{length} --resume"
        prepare_folder(out)
        jobs = jobs_of(recipes, seed=seed, out=out)
        show = Showing(console, jobs, again)
        # On the CPU even where there is a GPU: the same bits for everybody.
        show.training(Machine(), RunOptions(resume=resume, checkpoint_every=1))
        runs = write_demo_report(out, recipes)
    console.print(_result_table(runs))
    _say(console, f"\nreport    {out / 'report.html'}  (open it in a browser: curves, weights)")
    _say(console, f"picture   {out / 'picture.png'}")
    _say(console, f"networks  {out}/*/final.safetensors, with their figures in result.json")


@app.command()
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
    from binaryrelax.lab.recipes.listing import recipes_table

    Console().print(recipes_table(ALL_RECIPES))


@app.command()
def train(
    context: typer.Context,
    recipe: Annotated[str, typer.Argument(help="A name that `binaryrelax recipes` lists.")],
    data: DataOption = None,
    download: DownloadOption = False,
    out: Annotated[
        Path | None, typer.Option(help="The run folder; runs/RECIPE/seedN if not given.")
    ] = None,
    init: Annotated[
        Path | None,
        typer.Option(help="Start from this safetensors file instead of a float ancestor."),
    ] = None,
    seed: SeedOption = 0,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Scale the whole recipe; named RECIPE@N then.")
    ] = None,
    precision: PrecisionOption = None,
    deterministic: DeterministicOption = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the newest checkpoint in the run folder.")
    ] = False,
    checkpoint_every: Annotated[int, typer.Option(min=1, help="Epochs between checkpoints.")] = 5,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write TensorBoard logs into the run folder.")
    ] = False,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="Change a setting: key=value; named RECIPE+key=value then."),
    ] = None,
    debug: DebugOption = False,
) -> None:
    """Train one recipe. A quantized one trains its float ancestor first, inside the run folder.

    Under torchrun all processes share each batch. SIGINT and SIGTERM end with a checkpoint.

    Examples:

        binaryrelax train cifar10-resnet20-binary --data ~/cifar --out runs/binary

        binaryrelax train cifar10-resnet20-binary --out runs/binary --resume

        binaryrelax train demo-ternary --epochs 3 --set lr=0.05 --tensorboard

        torchrun --nproc-per-node 4 -m binaryrelax train imagenet-resnet18-ternary
            --data /imagenet --init resnet18.safetensors
    """
    with _one_line_errors(debug or context.obj):
        chosen = find_recipe(recipe).with_settings(_settings(set_ or []))
        chosen = chosen if epochs is None else chosen.with_epochs(epochs)
        out = out or Path("runs") / chosen.name / f"seed{seed}"
        prepare_folder(out)
        jobs = job_with_ancestor(chosen, seed=seed, out=out, initial=init)
        options = RunOptions(resume=resume, checkpoint_every=checkpoint_every)
        with this_machine(precision=precision, deterministic=deterministic) as machine:
            console = Console(quiet=not machine.is_first)
            show = Showing(console, jobs, "the same command with --resume")
            log = out if tensorboard and machine.is_first else None
            results = show.training(machine, options, images=(data, download), log=log)
        if results[-1]:
            _say(console, summary_line(results[-1]["summary"]))
            _say(console, f"files     {out}/ (result.json, final.safetensors)")


@app.command()
def campaign(
    context: typer.Context,
    table: Annotated[str, typer.Argument(help="cifar10, cifar100, imagenet, cifar10-plus, ...")],
    data: DataOption = None,
    download: DownloadOption = False,
    out: Annotated[Path, typer.Option(help="The folder for runs/ and results/.")] = Path(
        "campaign"
    ),
    only: Annotated[
        list[str] | None,
        typer.Option(help="Recipes by pattern; may be repeated. Their ancestors come along."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds of each cell, from 0 on.")] = 1,
    jobs: Annotated[int, typer.Option(min=1, help="Networks trained side by side.")] = 1,
    minutes: Annotated[
        float | None, typer.Option(min=0, help="End, with checkpoints, inside this time.")
    ] = None,
    import_state: Annotated[
        Path | None, typer.Option(help="First take over a state that was exported elsewhere.")
    ] = None,
    export_state: Annotated[
        Path | None, typer.Option(help="At the end write the state here, in files of 15 MiB.")
    ] = None,
    precision: PrecisionOption = None,
    deterministic: DeterministicOption = False,
    debug: DebugOption = False,
) -> None:
    """Train the missing cells of a table, several networks side by side, float ancestors first.

    It goes on from its checkpoints and skips what is finished: repeat the command until all is
    done.

    Examples:

        binaryrelax campaign cifar10 --jobs 4 --minutes 9

        binaryrelax campaign cifar10-plus --only '*resnet20*' --seeds 3 --jobs 4

        binaryrelax campaign cifar10 --minutes 9 --import-state old --export-state new
    """
    console = Console()
    with _one_line_errors(debug or context.obj), stop_wishes() as wish:
        deadline = Deadline(minutes, wish)
        cells = recipes_of_table(table)
        plan = Campaign(recipes=cells, out=out, only=tuple(only or ("*",)), num_seeds=seeds)
        all_jobs = plan.jobs()
        prepare_folder(out)
        if import_state is not None:
            _say(console, f"{len(import_files(import_state, out))} files taken over")
        num_missing = len(plan.missing())
        _say(console, f"{num_missing} of {len(all_jobs)} runs are to be done")
        try:
            if num_missing:
                images = load_dataset(plan.dataset, data=data, download=download)
                with this_machine(precision=precision, deterministic=deterministic) as machine:
                    show_campaign(console, plan, images, machine, jobs, deadline)
        finally:  # what other runs have brought must not be lost with one that failed
            if export_state is not None:
                parts = export_files(out, plan.state_files(), export_state)
                _say(console, f"state     {export_state} ({len(parts)} parts)")
        _say(console, f"results   {out / 'results'}")
        if wish():
            raise typer.Exit(wish.exit_status)


@app.command()
def report(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(help="Where result files are, at any depth.")],
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
    debug: DebugOption = False,
) -> None:
    """Write the paper's tables and curves beside ours as one self-contained page.

    Examples:

        binaryrelax report results --out report.html

        binaryrelax report campaign/results
    """
    from binaryrelax.lab.report import write_report

    console = Console()
    with _one_line_errors(debug or context.obj):
        summary = write_report(folder, out)
        for note in summary.notes:
            _say(console, f"note: {note}")
        _say(console, f"{summary.num_runs} runs of {summary.num_recipes} recipes in {out}")


@app.command()
def bench(
    context: typer.Context,
    what: Annotated[str, typer.Argument(help="step (needs a GPU) or projection.")],
    out: Annotated[
        Path | None, typer.Option(help="Where the JSON file goes; benchmarks/results/WHAT.json.")
    ] = None,
    debug: DebugOption = False,
) -> None:
    """Measure what a training step or a projection costs, side by side with others.

    Examples:

        binaryrelax bench step

        binaryrelax bench projection --out /tmp/projection.json
    """
    console = Console()
    with _one_line_errors(debug or context.obj):
        measured = _measure(what, lambda line: _say(console, line))
        target = out or Path("benchmarks") / "results" / f"{what}.json"
        target.parent.mkdir(parents=True, exist_ok=True)
        write_json(target, measured)
        _say(console, f"written to {target}")


def _measure(what: str, say: Callable[[str], None]) -> dict[str, Any]:
    if what == "step":
        from binaryrelax.lab.bench.step import bench_step

        return bench_step(say)
    if what == "projection":
        from binaryrelax.lab.bench.projection import bench_projection

        return bench_projection(say)
    raise ValueError(f"bench {what}: there are step and projection")


def _settings(given: list[str]) -> dict[str, str]:
    """The key=value pairs of --set."""
    pairs = [item.partition("=") for item in given]
    for key, equals, _ in pairs:
        if not equals:
            raise ValueError(f"--set {key}: write it as key=value, for example --set lr=0.05")
    return {key.strip(): value.strip() for key, _, value in pairs}


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
    for position, heading in enumerate(SHORT_HEADINGS):
        table.add_column(heading, justify="right" if position else "left", no_wrap=True)
    for finished in runs:
        table.add_row(*table_row(finished).short_cells())
    return table


@contextmanager
def _one_line_errors(debug: bool) -> Iterator[None]:
    """Turns exceptions into one line and exit status 1, unless a traceback is wanted."""
    try:
        yield
    except Stopped as stop:
        raise typer.Exit(stop.exit_status) from None
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


def _say(console: Console, line: str) -> None:
    console.print(line, markup=False, highlight=False, soft_wrap=True)


def _complain(message: str) -> None:
    sys.stderr.write(f"binaryrelax: {message}\n")
