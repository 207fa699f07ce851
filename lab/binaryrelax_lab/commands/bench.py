"""`binaryrelax bench`: what things cost."""

from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from binaryrelax.cli.console import say
from binaryrelax.cli.errors import UsageError, one_line_errors
from binaryrelax.cli.options import DebugOption
from binaryrelax_lab.commands.errors import prepare_folder
from binaryrelax_lab.engine import write_json

# Each is the function bench_NAME in the file of that name in `binaryrelax_lab.studies.bench`.
BENCHES = (
    *("step", "convolutions", "projection", "networks", "packed", "packed_gpu", "monitor"),
    *("profile", "adamw", "language"),
)


def bench(
    context: typer.Context,
    what: Annotated[str, typer.Argument(help=f"{', '.join(BENCHES[:-1])} or {BENCHES[-1]}.")],
    out: Annotated[
        Path | None, typer.Option(help="Where the JSON file goes; bench-WHAT.json.")
    ] = None,
    sweep: Annotated[
        bool, typer.Option("--sweep", help="With packed_gpu: try other plans of its kernels too.")
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(
            help="With networks: the folder or archive with CIFAR. Trained networks are then "
            "calibrated and timed with its images, and tried on its test images."
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="With networks: two networks, one image, few repetitions."),
    ] = False,
    debug: DebugOption = False,
) -> None:
    """Measure a training step, a projection or a packed network, side by side with others.

    step, adamw, convolutions and packed_gpu need a GPU.

    Examples:

        binaryrelax bench step

        binaryrelax bench adamw             (on the weights of a small language model)

        binaryrelax bench projection --out projection.json

        binaryrelax bench networks --quick

        binaryrelax bench networks --data DIR --out networks.json

        binaryrelax bench language

        binaryrelax bench profile           (the native runtime layer by layer)

        binaryrelax bench packed           (two CPU threads; takes some minutes)

        binaryrelax bench packed_gpu --sweep --out packed_gpu.json

        binaryrelax bench monitor --out results/theory/monitor.json
    """
    console = Console()
    with one_line_errors(context, debug):
        if what not in BENCHES:
            raise UsageError(f"bench {what}: there are {', '.join(BENCHES)}")
        if sweep and what != "packed_gpu":
            raise UsageError(f"bench {what} --sweep: only packed_gpu has other plans to try")
        if what != "networks" and (quick or data is not None):
            raise UsageError(f"bench {what}: --data and --quick are for networks")
        if data is not None and not data.exists():
            raise UsageError(f"--data {data} is not there; give the folder or archive with CIFAR")
        target = out or Path(f"bench-{what}.json")
        prepare_folder(target.parent)  # before the minutes that measuring takes
        measure = getattr(import_module(f"binaryrelax_lab.studies.bench.{what}"), f"bench_{what}")
        asked: dict[str, Any] = {"sweep": sweep, "data": data, "quick": quick}
        choices = {name: value for name, value in asked.items() if value}
        measured = measure(lambda line: say(console, line), **choices)
        write_json(target, measured)
        say(console, f"written to {target}")
