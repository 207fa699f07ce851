"""The demo: five small networks on the embedded images, one after the other."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from binaryrelax.lab.data import load_dataset
from binaryrelax.lab.engine import (
    FINAL_NAME,
    RESULT_NAME,
    Listener,
    is_finished,
    read_json,
    train,
)
from binaryrelax.lab.recipes import (
    Recipe,
    demo_binary,
    demo_bwn,
    demo_float,
    demo_ternary,
    demo_twn,
)


def demo_recipes(epochs: int | None = None) -> list[Recipe]:
    """The five recipes, the float network first; `epochs` replaces their own number."""
    recipes = [demo_float(), demo_bwn(), demo_binary(), demo_twn(), demo_ternary()]
    return recipes if epochs is None else [recipe.with_epochs(epochs) for recipe in recipes]


def run_demo(
    out: Path, recipes: list[Recipe], *, seed: int, resume: bool, listener: Listener
) -> list[dict[str, Any]]:
    """Trains the networks into folders of `out` and returns their results, in order.

    Args:
        out: made if it is not there; other files in it are left alone.
        recipes: in an order in which each starts from an earlier one.
        seed: the seed of all of them.
        resume: keep runs that were finished with the same recipe and seed.
        listener: who hears of the progress.
    """
    prepare_folder(out)
    if not resume:
        forget_results(out, recipes)
    data = load_dataset(recipes[0].dataset)
    results = []
    for recipe in recipes:
        folder = out / recipe.name
        initial = out / recipe.starts_from / FINAL_NAME if recipe.starts_from else None
        if resume and is_finished(folder, recipe, seed=seed, initial=initial):
            results.append(read_json(folder / RESULT_NAME))
            listener.run_skipped(results[-1])
            continue
        with one_thread():
            results.append(
                train(recipe, data, seed=seed, folder=folder, initial=initial, listener=listener)
            )
    return results


@contextmanager
def one_thread() -> Iterator[None]:
    """Lets torch use a single thread inside.

    OpenMP's threads wait for each other by spinning: with two of them on two cores, one busy
    neighbour made an epoch of the demo take 31 seconds instead of 2.7 with a single thread. The
    price is 2.3 instead of 1.3 seconds on an idle machine. It also makes the bits of the result
    independent of the number of cores.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def prepare_folder(out: Path) -> None:
    """Makes the folder; an error that says why if nothing can be written into it."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"--out {out} is a file; give the name of a folder")
    try:
        out.mkdir(parents=True, exist_ok=True)
        probe = out / ".binaryrelax-probe"
        probe.touch()
        probe.unlink()
    except OSError as error:
        reason = error.strerror or error
        raise ValueError(
            f"--out {out} cannot be written to ({reason}); give another folder"
        ) from error


def forget_results(out: Path, recipes: list[Recipe]) -> None:
    """Takes away what says that a run is finished, so that none of it is mistaken for new."""
    for recipe in recipes:
        (out / recipe.name / RESULT_NAME).unlink(missing_ok=True)


def finished_runs(out: Path, recipes: list[Recipe]) -> list[Path]:
    """The folders of the recipes that have been trained to the end."""
    return [out / r.name for r in recipes if (out / r.name / RESULT_NAME).is_file()]
