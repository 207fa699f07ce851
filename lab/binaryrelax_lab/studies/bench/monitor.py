"""What measuring costs: ``measure()`` once an epoch, and ``monitor()`` around one, on a CPU.

The epochs are those of the demo, one thread. Not calling them costs nothing at all: without
``monitor()`` no hook is registered, and ``measure()`` reads what the optimizer holds anyway.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from binaryrelax import Quantizer, Ternary, measure, monitor
from binaryrelax_lab.data import load_fashion_mnist
from binaryrelax_lab.engine import one_thread
from binaryrelax_lab.engine.trainer import Trainer
from binaryrelax_lab.recipes import Recipe, RecipeName, demo_bwn, demo_twn
from binaryrelax_lab.studies import Say, silence
from binaryrelax_lab.studies.bench.timing import describe_cpu, interleaved
from binaryrelax_lab.studies.quantized_training import relaxation_of, started, train_epochs

REPETITIONS = 5
LIMIT_PERCENT = 5.0


def bench_monitor(tell: Say = silence, repetitions: int = REPETITIONS) -> dict[str, Any]:
    """Seconds of an epoch, of ``measure()`` and of an epoch inside ``monitor()``, by quantizer."""
    recipes = [demo_bwn(), demo_twn(), _with(demo_twn(), Ternary())]
    with one_thread():
        rows = [_row(recipe, repetitions) for recipe in recipes]
        cpu = describe_cpu()
    for row in rows:
        tell(
            f"{row['quantizer']}: an epoch {row['epoch_seconds']:.2f} s, measure() "
            f"{row['measure_seconds'] * 1e3:.1f} ms, {row['measure_percent']:.2f} % of it"
        )
    return {"machine": cpu, "limit_percent": LIMIT_PERCENT, "rows": rows}


def _with(recipe: Recipe, quantizer: Quantizer) -> Recipe:
    return replace(recipe, name=RecipeName(f"{recipe.name}-exact"), quantizer=quantizer)


def _row(recipe: Recipe, repetitions: int) -> dict[str, Any]:
    trainer = started(recipe, load_fashion_mnist())
    measure(relaxation_of(trainer))  # the first call has nothing to count flips against
    found = interleaved(_methods(trainer), repetitions)
    return {
        "recipe": recipe.name,
        "quantizer": repr(recipe.quantizer),
        "steps_per_epoch": trainer.steps_per_epoch,
        "epoch_seconds": found["epoch"],
        "measure_seconds": found["measure"],
        "measure_percent": 100 * found["measure"] / found["epoch"],
        "monitored_epoch_seconds": found["monitored"],
        "monitor_percent": 100 * (found["monitored"] / found["epoch"] - 1),
    }


def _methods(trainer: Trainer) -> dict[str, Callable[[], object]]:
    optimizer, epoch = relaxation_of(trainer), partial(train_epochs, trainer, 1)

    def monitored() -> None:
        with monitor(optimizer):
            epoch()

    return {"epoch": epoch, "measure": partial(measure, optimizer), "monitored": monitored}
