"""`binaryrelax study`: what docs/evidence rests on beside training runs."""

from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from binaryrelax.cli.console import say
from binaryrelax.cli.errors import UsageError
from binaryrelax.cli.options import DataOption, DebugOption
from binaryrelax_lab.commands.errors import lab_errors, prepare_folder
from binaryrelax_lab.engine import one_thread
from binaryrelax_lab.engine.recalibration import NUM_BATCHES
from binaryrelax_lab.studies import Say
from binaryrelax_lab.studies.batch_statistics import phase_two_of_the_demo, recalibrated_networks
from binaryrelax_lab.studies.finding import Record, add_to_finding, write_finding
from binaryrelax_lab.studies.level_changes import (
    flips_of_the_demo,
    jumps_of_resnet20,
    jumps_of_the_demo,
)
from binaryrelax_lab.studies.shipped_networks import accuracies_of_files

STUDIES = ("flips", "jumps", "phase-two", "recalibration", "networks")
RECALIBRATING = ("phase-two", "recalibration")
OF_A_FOLDER = {"recalibration": "networks that runs have left", "networks": "packed networks"}


def study(
    context: typer.Context,
    what: Annotated[str, typer.Argument(help=f"{', '.join(STUDIES[:-1])} or {STUDIES[-1]}.")],
    folder: Annotated[
        Path | None,
        typer.Argument(help="With recalibration and networks: where the networks are."),
    ] = None,
    data: DataOption = None,
    init: Annotated[
        Path | None,
        typer.Option(help="With jumps: a float ResNet-20 (final.safetensors) to start from."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where the JSON file goes; study-WHAT.json.")
    ] = None,
    debug: DebugOption = False,
) -> None:
    """Look into single steps, batch statistics or shipped networks: what docs/evidence shows.

    flips: how many binary weights a step flips while the learning rate stays; 20 minutes.

    jumps: how much of a layer the two ternary projections change in a step, of the demo's network
    or, with --init, of ResNet-20 in its first epoch on CIFAR-10.

    phase-two: what batch statistics are worth when Phase I of the demo ends; 15 minutes.

    recalibration: accuracies of the networks in FOLDER/RECIPE/seedK with batch statistics as they
    are and measured anew, added to those that the file has.

    networks: accuracies of the packed files in FOLDER.

    Examples:

        binaryrelax study flips --out results/findings/flips.json

        binaryrelax study jumps --init float/final.safetensors --data DIR

        binaryrelax study phase-two

        binaryrelax study recalibration runs --data DIR --out results/findings/recalibration.json

        binaryrelax study networks networks --data DIR
    """
    console = Console()
    with lab_errors(context, debug):
        _refuse_misuse(what, folder, data, init)
        target = out or Path(f"study-{what}.json")
        prepare_folder(target.parent)  # before the minutes that measuring takes
        about = {"batches": NUM_BATCHES} if what in RECALIBRATING else {}
        with nullcontext() if what in OF_A_FOLDER else one_thread():  # the demo's networks are tiny
            records = _records(what, folder or Path(), data, init, lambda line: say(console, line))
            if what == "recalibration":
                add_to_finding(target, records, key=("recipe", "seed"), **about)
            else:
                write_finding(target, records, **about)
        say(console, f"written to {target}")


def _refuse_misuse(what: str, folder: Path | None, data: Path | None, init: Path | None) -> None:
    if what not in STUDIES:
        raise UsageError(f"study {what}: there are {', '.join(STUDIES)}")
    if what in OF_A_FOLDER and folder is None:
        raise UsageError(f"study {what} needs the folder of {OF_A_FOLDER[what]}")
    if folder is not None and what not in OF_A_FOLDER:
        raise UsageError(f"study {what} {folder}: it takes no folder of networks")
    if init is not None and what != "jumps":
        raise UsageError(f"study {what} --init: only jumps starts from a given network")
    if data is not None and what not in OF_A_FOLDER and init is None:
        way_out = "; with --init it looks at CIFAR-10" if what == "jumps" else ""
        raise UsageError(f"study {what} --data: it looks at the embedded images{way_out}")


def _records(
    what: str, folder: Path, data: Path | None, init: Path | None, tell: Say
) -> Iterable[Record]:
    if what == "flips":
        return flips_of_the_demo(tell)
    if what == "jumps":
        return jumps_of_resnet20(data, init, tell) if init else jumps_of_the_demo(tell)
    if what == "phase-two":
        return phase_two_of_the_demo(tell)
    measure = recalibrated_networks if what == "recalibration" else accuracies_of_files
    return measure(folder, data, tell)
