"""`binaryrelax export`: a packed network for other run times."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from binaryrelax.cli.errors import UsageError, one_line_errors
from binaryrelax.cli.options import DebugOption
from binaryrelax.cli.speech import say

SUFFIXES = {"onnx": ".onnx", "openvino": ".xml"}


def export(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="What `binaryrelax pack` has written.")],
    to: Annotated[str, typer.Option("--to", help="onnx or openvino.")],
    out: Annotated[
        Path | None, typer.Option(help="The file to write; FILE.onnx or FILE.xml if not given.")
    ] = None,
    debug: DebugOption = False,
) -> None:
    """Write a packed network as ONNX or OpenVINO, its weights still packed.

    Needs the extra of that name: pip install '.[onnx]' or '.[openvino]' in the source folder.

    Examples:

        binaryrelax export binary.safetensors --to onnx

        binaryrelax export ternary.safetensors --to openvino --out ternary.xml
    """
    console = Console()
    with one_line_errors(debug or context.obj):
        if to not in SUFFIXES:
            raise UsageError(f"--to {to}: there are {' and '.join(SUFFIXES)}")
        target = out or file.with_suffix(SUFFIXES[to])
        if target == file:
            raise UsageError(f"--out {target} would replace the packed file; give another name")
        written = _export(file, to, target)
        size = sum(path.stat().st_size for path in written)
        say(console, f"{' and '.join(str(path) for path in written)}  {size:,} bytes")


def _export(file: Path, to: str, target: Path) -> list[Path]:
    from binaryrelax.lab.packing import example_images, load_packed_run

    model, dataset = load_packed_run(file)
    if to == "onnx":
        from binaryrelax.packed.export.onnx import export_onnx

        export_onnx(model, example_images(dataset), target)
        return [target]
    from binaryrelax.packed.export.openvino import export_openvino

    export_openvino(model, example_images(dataset), target)
    return [target, target.with_suffix(".bin")]
