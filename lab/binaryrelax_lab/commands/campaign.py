"""`binaryrelax campaign`: all cells of a table."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from binaryrelax.cli.console import say
from binaryrelax.cli.errors import usage_errors
from binaryrelax.cli.options import (
    DataOption,
    DebugOption,
    DownloadOption,
)
from binaryrelax_lab.campaign import CAMPAIGNS, Campaign, Deadline, recipes_of_tables
from binaryrelax_lab.commands.errors import lab_errors, prepare_folder
from binaryrelax_lab.commands.loading import load_data
from binaryrelax_lab.commands.options import DeterministicOption, PrecisionOption
from binaryrelax_lab.commands.signals import stop_wishes
from binaryrelax_lab.commands.training import show_campaign
from binaryrelax_lab.engine import (
    refuse_impossible,
    require_precision,
    sole_use,
    this_machine,
)


def campaign(
    context: typer.Context,
    tables: Annotated[list[str], typer.Argument(help=f"One or several of {', '.join(CAMPAIGNS)}.")],
    data: DataOption = None,
    download: DownloadOption = False,
    out: Annotated[Path, typer.Option(help="The folder for runs/ and results/.")] = Path(
        "campaign"
    ),
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="Runs by a pattern of RECIPE or RECIPE/seedK; may be repeated. Their ancestors "
            "come along."
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds of each cell.")] = 1,
    first_seed: Annotated[int, typer.Option(min=0, help="The first of them.")] = 0,
    jobs: Annotated[int, typer.Option(min=1, help="Networks trained side by side.")] = 1,
    minutes: Annotated[
        float | None, typer.Option(min=0, help="End, with checkpoints, inside this time.")
    ] = None,
    precision: PrecisionOption = None,
    deterministic: DeterministicOption = False,
    debug: DebugOption = False,
) -> None:
    """Train the missing cells of tables, several networks side by side, float ancestors first.

    It goes on from its checkpoints and skips what is finished: repeat the command until all is
    done.

    Examples:

        binaryrelax campaign cifar10 --jobs 4 --minutes 9

        binaryrelax campaign cifar10-plus --only '*resnet20*' --seeds 3 --jobs 4

        binaryrelax campaign cifar10 cifar10-tuned --seeds 3 --only '*resnet18*/seed0' --only '*20*'
    """
    console = Console()
    with lab_errors(context, debug), stop_wishes() as wish:
        deadline = Deadline(minutes, wish)
        with usage_errors("--"):
            require_precision(precision)
        with usage_errors():
            cells = recipes_of_tables(*tables)
            plan = Campaign(
                recipes=cells,
                out=out,
                only=tuple(only or ("*",)),
                num_seeds=seeds,
                first_seed=first_seed,
            )
        with usage_errors("--only "):
            all_jobs = plan.jobs()
        with usage_errors():
            refuse_impossible(all_jobs)
        prepare_folder(out)
        with (
            this_machine(precision=precision, deterministic=deterministic) as machine,
            sole_use((job.folder for job in plan.missing()), machine.ranks),
        ):
            num_missing = len(plan.missing())
            say(console, f"{num_missing} of {len(all_jobs)} runs are to be done")
            if num_missing:
                material = load_data(
                    plan.recipes[0],
                    data=data,
                    download=download,
                    in_turn=machine.ranks.in_turn,
                    note=partial(say, console),
                )
                show_campaign(console, plan, material, machine, jobs, deadline)
        say(console, f"results   {out / 'results'}")
        if wish():
            raise typer.Exit(wish.exit_status)
