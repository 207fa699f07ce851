"""`binaryrelax bench`: what things cost."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from binaryrelax.cli.errors import one_line_errors
from binaryrelax.cli.options import DebugOption
from binaryrelax.cli.speech import say
from binaryrelax.lab.engine import write_json


def bench(
    context: typer.Context,
    what: Annotated[str, typer.Argument(help="step (needs a GPU), projection, packed or monitor.")],
    out: Annotated[
        Path | None, typer.Option(help="Where the JSON file goes; benchmarks/results/WHAT.json.")
    ] = None,
    debug: DebugOption = False,
) -> None:
    """Measure a training step, a projection or a packed network, side by side with others.

    Examples:

        binaryrelax bench step

        binaryrelax bench projection --out /tmp/projection.json

        binaryrelax bench packed           (two CPU threads; takes some minutes)

        binaryrelax bench monitor --out results/theory/monitor.json
    """
    console = Console()
    with one_line_errors(debug or context.obj):
        measured = _measure(what, lambda line: say(console, line))
        target = out or Path("benchmarks") / "results" / f"{what}.json"
        target.parent.mkdir(parents=True, exist_ok=True)
        write_json(target, measured)
        say(console, f"written to {target}")


def _measure(what: str, tell: Callable[[str], None]) -> dict[str, Any]:
    if what == "step":
        from binaryrelax.lab.bench.step import bench_step

        return bench_step(tell)
    if what == "projection":
        from binaryrelax.lab.bench.projection import bench_projection

        return bench_projection(tell)
    if what == "packed":
        from binaryrelax.lab.bench.packed import bench_packed

        return bench_packed(tell)
    if what == "monitor":
        from binaryrelax.lab.bench.monitor import bench_monitor

        return bench_monitor(tell)
    raise ValueError(f"bench {what}: there are step, projection, packed and monitor")
