"""Options that several commands of the lab have in common."""

from typing import Annotated

import typer

SeedOption = Annotated[
    int, typer.Option(min=0, max=2**32 - 1, help="Everything random follows from it.")
]
PrecisionOption = Annotated[
    str | None, typer.Option(help="bf16 or fp32; bf16 on a GPU, fp32 on a CPU if not given.")
]
DeterministicOption = Annotated[
    bool, typer.Option("--deterministic", help="The same bits in every run on the same GPU.")
]
