"""The demo: five small networks on the embedded images, one after the other."""

from dataclasses import replace
from pathlib import Path

from binaryrelax.lab.data import load_fashion_mnist
from binaryrelax.lab.engine import RESULT_NAME, Job, Machine, recipe_in
from binaryrelax.lab.engine.checkpoint import checkpoints
from binaryrelax.lab.packing import PackedRun, accuracy_of, load_packed_run, pack_run
from binaryrelax.lab.recipes import OUR_TABLES, Recipe, demo_float

PAGE_NAME, PICTURE_NAME = "report.html", "picture.png"


def demo_recipes(epochs: int | None = None) -> list[Recipe]:
    """The five recipes, the float network first; `epochs` replaces their own number."""
    return [recipe.with_epochs(epochs or recipe.epochs) for recipe in OUR_TABLES["demo"].recipes]


def refuse_other_folders(out: Path, jobs: list[Job]) -> None:
    """A `ValueError` if the demo would replace what no demo has written into `out`."""
    foreign = [out / RESULT_NAME, *checkpoints(out)]  # a run, whose ancestor would be replaced
    foreign += [job.folder for job in jobs if recipe_in(job.folder) not in (job.recipe.name, None)]
    if not any(out.glob(f"{demo_float().name}*/")):
        foreign += [out / PAGE_NAME, out / PICTURE_NAME]
    for path in foreign:
        if path.exists():
            raise ValueError(f"{path} was not written by a demo; give another --out than {out}")


def pack_networks(out: Path, recipes: list[Recipe]) -> list[PackedRun]:
    """Packs the quantized networks in `out`, loads the files again and tests those networks."""
    data = load_fashion_mnist()
    packed = []
    for recipe in recipes:
        if recipe.quantizer is not None:
            file = out / recipe.name / "packed.safetensors"
            run = pack_run(out / recipe.name, file, fold_batchnorm=True)
            model, _ = load_packed_run(file)
            packed.append(replace(run, packed=accuracy_of(model, data, Machine())))
    return packed


def write_demo_report(out: Path, recipes: list[Recipe], packed: list[PackedRun]) -> list:
    """Writes page and picture of the finished runs in `out`; returns the runs."""
    from binaryrelax.lab.report import (  # not before it is needed: matplotlib loads slowly
        load_run,
        write_page,
        write_picture,
    )

    runs = [load_run(out / recipe.name) for recipe in recipes]
    write_page(out / PAGE_NAME, runs, packed)
    write_picture(out / PICTURE_NAME, runs)
    return runs
