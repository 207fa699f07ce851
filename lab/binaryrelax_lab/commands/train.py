"""`binaryrelax train`: one recipe."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from binaryrelax.cli.console import say
from binaryrelax.cli.errors import UsageError, usage_errors
from binaryrelax.cli.options import DataOption, DebugOption, DownloadOption
from binaryrelax_lab.commands.errors import lab_errors, prepare_folder, ways_out
from binaryrelax_lab.commands.options import DeterministicOption, PrecisionOption, SeedOption
from binaryrelax_lab.commands.training import ShownTraining, summary_line
from binaryrelax_lab.engine import (
    RunOptions,
    job_with_ancestor,
    refuse_impossible,
    require_precision,
    this_machine,
)
from binaryrelax_lab.recipes import find_recipe
from binaryrelax_lab.recipes.settings import split_settings


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
        typer.Option(
            help="Start from this file (safetensors, or torch's .pth) instead of a float ancestor."
        ),
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
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Begin anew, and replace the run in that folder.")
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

    Under torchrun all processes share each batch. SIGINT and SIGTERM end with a checkpoint. A
    folder that holds a run needs --resume or --overwrite.

    Examples:

        binaryrelax train cifar10-resnet20-binary --data ~/cifar --out runs/binary

        binaryrelax train cifar10-resnet20-binary --out runs/binary --resume

        binaryrelax train demo-ternary --epochs 3 --set lr=0.05 --tensorboard

        torchrun --nproc-per-node 4 -m binaryrelax train imagenet-resnet18-ternary
            --data /imagenet --init resnet18.pth
    """
    with lab_errors(context, debug):
        with usage_errors(), ways_out():
            if resume and overwrite:
                raise UsageError("--resume and --overwrite: one goes on, one begins anew; give one")
            with usage_errors("--"):
                require_precision(precision)
            chosen = find_recipe(recipe)
            with usage_errors("--set "):
                chosen = chosen.with_settings(split_settings(set_ or []))
            chosen = chosen if epochs is None else chosen.with_epochs(epochs)
            out = out or Path("runs") / chosen.name / f"seed{seed}"
            jobs = job_with_ancestor(chosen, seed=seed, out=out, initial=init)
            refuse_impossible(jobs)
        if resume and jobs[-1].is_finished():
            jobs = [job for job in jobs if job.is_finished()]  # nothing needs an ancestor any more
        else:
            prepare_folder(out)
        options = RunOptions(resume=resume, checkpoint_every=checkpoint_every)
        with this_machine(precision=precision, deterministic=deterministic) as machine:
            console = Console(quiet=not machine.ranks.is_first)
            show = ShownTraining(console, jobs, out, "the same command with --resume")
            log = out if tensorboard and machine.ranks.is_first else None
            results = show.run(
                machine, options, overwrite=overwrite, source=(data, download), log=log
            )
        if results[-1]:
            say(console, summary_line(results[-1].summary))
            say(console, f"files     {out}/ (result.json, final.safetensors)")
