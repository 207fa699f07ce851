"""Options that several commands have in common."""

from pathlib import Path
from typing import Annotated

import typer

DebugOption = Annotated[
    bool, typer.Option("--debug", help="On an error, show where it happened (a traceback).")
]
DataOption = Annotated[
    Path | None, typer.Option(help="The folder or archive with the images; ./data if not given.")
]
DownloadOption = Annotated[
    bool, typer.Option("--download", help="Fetch CIFAR into that folder if it is not there.")
]
