"""The demo: five small networks on the embedded images, one after the other."""

from pathlib import Path

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


def write_demo_report(out: Path, recipes: list[Recipe]) -> list:
    """Writes page and picture of the finished runs in `out`; returns the runs."""
    from binaryrelax.lab.report import (  # not before it is needed: matplotlib loads slowly
        load_run,
        write_page,
        write_picture,
    )

    runs = [load_run(out / recipe.name) for recipe in recipes]
    write_page(out / "report.html", runs)
    write_picture(out / "picture.png", runs)
    return runs
