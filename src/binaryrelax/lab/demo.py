"""The demo: five small networks on the embedded images, one after the other."""

from dataclasses import replace
from pathlib import Path

from binaryrelax.lab.data import load_fashion_mnist
from binaryrelax.lab.engine import Machine
from binaryrelax.lab.packing import PackedRun, accuracy_of, load_packed_run, pack_run
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
    write_page(out / "report.html", runs, packed)
    write_picture(out / "picture.png", runs)
    return runs
