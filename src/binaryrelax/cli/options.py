"""Options that several commands have in common."""

from pathlib import Path
from typing import Annotated

import typer

DebugOption = Annotated[
    bool, typer.Option("--debug", help="On an error, show where it happened (a traceback).")
]
SeedOption = Annotated[
    int, typer.Option(min=0, max=2**32 - 1, help="Everything random follows from it.")
]
DataOption = Annotated[
    Path | None, typer.Option(help="The folder or archive with the images; ./data if not given.")
]
DownloadOption = Annotated[
    bool, typer.Option("--download", help="Fetch CIFAR into that folder if it is not there.")
]
PrecisionOption = Annotated[
    str | None, typer.Option(help="bf16 or fp32; bf16 on a GPU, fp32 on a CPU if not given.")
]
DeterministicOption = Annotated[
    bool, typer.Option("--deterministic", help="The same bits in every run on the same GPU.")
]
