"""The demo: five small networks on the embedded images, one after the other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from binaryrelax_lab.data import ImageSource, load_fashion_mnist
from binaryrelax_lab.engine import Job, Machine, RunFolder
from binaryrelax_lab.packing import accuracy_of, load_packed_run, pack_run
from binaryrelax_lab.recipes import METHOD_NAMES, OUR_TABLES, Recipe, demo_float
from binaryrelax_lab.results import RunResult, read_run

if TYPE_CHECKING:
    from binaryrelax_lab.report.demo_page import PackedRow

PAGE_NAME, PICTURE_NAME = "report.html", "picture.png"


class NotOfADemo(ValueError):
    """A demo would replace what no demo has written."""


def demo_recipes(epochs: int | None = None) -> list[Recipe]:
    """The five recipes, the float network first; `epochs` replaces their own number."""
    return [recipe.with_epochs(epochs or recipe.epochs) for recipe in OUR_TABLES["demo"].recipes]


def refuse_other_folders(out: Path, jobs: list[Job]) -> None:
    """A `NotOfADemo` if the demo would replace what no demo has written into `out`."""
    foreign = RunFolder(out).at_stake()  # a run, whose ancestor would be replaced
    names = {job.folder: (job.run_folder.recipe_name, job.recipe.name) for job in jobs}
    foreign += [path for path, (there, ours) in names.items() if there not in (ours, None)]
    if not any(out.glob(f"{demo_float().name}*/")):
        foreign += [out / PAGE_NAME, out / PICTURE_NAME]
    for path in foreign:
        if path.exists():
            raise NotOfADemo(f"{path} was not written by a demo")


def pack_networks(out: Path, recipes: list[Recipe]) -> list[PackedRow]:
    """Packs the quantized networks in `out`, loads the files again and tests those networks."""
    data = load_fashion_mnist()
    quantized = [recipe for recipe in recipes if recipe.quantizer is not None]
    return [_packed_network(out / recipe.name, data) for recipe in quantized]


def write_demo_report(out: Path, recipes: list[Recipe], packed: list[PackedRow]) -> list[RunResult]:
    """Writes page and picture of the finished runs in `out`; returns the runs."""
    # Not before they are needed: matplotlib loads slowly.
    from binaryrelax_lab.report.demo_page import write_page
    from binaryrelax_lab.report.demo_picture import write_picture

    runs = [read_run(out / recipe.name) for recipe in recipes]
    write_page(out / PAGE_NAME, runs, packed)
    write_picture(out / PICTURE_NAME, runs)
    return runs


def _packed_network(folder: Path, data: ImageSource) -> PackedRow:
    from binaryrelax_lab.report.demo_page import PackedRow

    file = folder / "packed.safetensors"
    run = pack_run(folder, file, fold_batchnorm=True)
    model, _ = load_packed_run(file)
    return PackedRow(
        method=run.method,
        label=METHOD_NAMES[run.method],
        file_bytes=run.certificate.file_bytes,
        saving=run.certificate.saving,
        is_certified=run.certificate.ok,
        trained=run.trained,
        from_the_file=accuracy_of(model, data, Machine()),
    )
