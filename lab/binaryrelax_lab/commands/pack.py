"""`binaryrelax pack`: the network of a finished run as a small file."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track

from binaryrelax.cli.console import say
from binaryrelax.cli.options import DataOption, DebugOption, DownloadOption
from binaryrelax_lab.commands.errors import OF_READERS, lab_errors


def pack(
    context: typer.Context,
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    out: Annotated[Path, typer.Option(help="The file to write.")],
    fold_batchnorm: Annotated[
        bool,
        typer.Option(
            "--fold-batchnorm",
            help="Fold batch normalization into scales and biases: smaller, same predictions.",
        ),
    ] = False,
    recalibrate: Annotated[
        bool,
        typer.Option(
            "--recalibrate",
            help="Measure the statistics of batch normalization anew, on training images: better "
            "where training has ended at a learning rate above zero.",
        ),
    ] = False,
    data: DataOption = None,
    download: DownloadOption = False,
    debug: DebugOption = False,
) -> None:
    """Pack the network of a finished run: 1 bit a weight, or 1.6 for ternary ones.

    The weights in the file are those of RUN/final.safetensors, bit for bit.

    Examples:

        binaryrelax pack demo/demo-binary --out binary.safetensors

        binaryrelax pack runs/ternary --out ternary.safetensors --fold-batchnorm

        binaryrelax pack runs/binary --out binary.safetensors --recalibrate --data DIR
    """
    from binaryrelax_lab.data import load_dataset
    from binaryrelax_lab.packing import pack_run

    console = Console()
    if (data or download) and not recalibrate:
        raise typer.BadParameter("images are for --recalibrate, which is not there")
    images_of = partial(load_dataset, data=data, download=download) if recalibrate else None
    watched = partial(
        track,
        description="batch statistics",
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with lab_errors(context, debug, OF_READERS):
        packed = pack_run(
            run, out, fold_batchnorm=fold_batchnorm, images_of=images_of, watched=watched
        )
        certificate = packed.certificate
        say(
            console,
            f"{out}  {certificate.file_bytes:,} bytes, {certificate.saving:.1f} times less than "
            f"float32; `binaryrelax certify {out}` shows its layers",
        )
