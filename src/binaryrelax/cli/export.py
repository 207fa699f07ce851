"""`binaryrelax export`: a packed network for other run times."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from torch import nn

from binaryrelax import load_packed
from binaryrelax.cli.console import say
from binaryrelax.cli.errors import UsageError, one_line_errors
from binaryrelax.cli.native_export import Exported, export_tried
from binaryrelax.cli.options import DebugOption
from binaryrelax.cli.plugins import Plugins
from binaryrelax.export.targets import TARGETS
from binaryrelax.packed.file import PackedFile


def export(
    context: typer.Context,
    file: Annotated[
        Path, typer.Argument(help="A packed network; with the lab also the folder of a run.")
    ],
    to: Annotated[str, typer.Option("--to", help="native, onnx or openvino.")],
    out: Annotated[
        Path | None,
        typer.Option(help="The file to write; FILE.brx, FILE.onnx or FILE.xml if not given."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="module:function that builds the network without arguments, for a file that is "
            "not of the lab. The current folder is searched, too."
        ),
    ] = None,
    shape: Annotated[
        str | None, typer.Option("--input", help="The shape of its input, such as 1x3x32x32.")
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option(
            help="With --to native: fast (activations in 8 bits; if not given) or exact (float32)."
        ),
    ] = None,
    calibration: Annotated[
        Path | None,
        typer.Option(
            help="With --to native: what gives mode fast the ranges of activations. An .npy file "
            "with images as the network takes them (float32), or, for networks of the lab, the "
            "folder or archive with the images it was trained on."
        ),
    ] = None,
    debug: DebugOption = False,
) -> None:
    """Write a packed network for another run time, its weights still packed.

    native is the runtime of this project, binaryrelax-native: one file, run without torch. It is
    tried where the runtime is installed. onnx and openvino need the extra of that name: pip install
    '.[onnx]' or '.[openvino]' in the source folder.

    A packed file holds no architecture: --model says what builds it. Files and runs of the lab are
    known.

    Examples:

        binaryrelax export binary.safetensors --to native

        binaryrelax export binary.safetensors --to native --calibration DIR

        binaryrelax export ternary.safetensors --to native --mode exact --out exact.brx

        binaryrelax export binary.safetensors --to onnx

        binaryrelax export ternary.safetensors --to openvino --out ternary.xml

        binaryrelax export mine.safetensors --to onnx --model mynets:build --input 1x3x224x224
    """
    console = Console()
    with one_line_errors(context, debug):
        if to not in TARGETS:
            raise UsageError(f"--to {to}: there are {', '.join(TARGETS)}")
        if to != "native" and (mode is not None or calibration is not None):
            raise UsageError(f"--mode and --calibration are for --to native, not --to {to}")
        target = TARGETS[to]
        path = out or _beside(file, target.suffixes[0])
        if path == file:
            raise UsageError(f"--out {path} would replace the packed file; give another name")
        known = _network(file, model, shape, context.obj.plugins)
        if to == "native":
            lines = export_tried(known, path, mode or "fast", calibration)
        else:
            target.export(known.model, known.example, path)
            lines = []
        written = target.written(path)
        size = sum(path.stat().st_size for path in written)
        say(console, f"{' and '.join(str(path) for path in written)}  {size:,} bytes")
        for line in lines:
            say(console, line)


def _beside(file: Path, suffix: str) -> Path:
    """The usual place of an export; the name of a folder may hold dots that end nothing."""
    if not file.is_dir():
        return file.with_suffix(suffix)
    folder = file.resolve()
    return folder.with_name(folder.name + suffix)


def _network(file: Path, model: str | None, shape: str | None, plugins: Plugins) -> Exported:
    """The network and an example of its input, by the arguments or by somebody who knows it."""
    if (model is None) != (shape is None):
        raise UsageError("--model and --input belong together; give both, or none")
    if model is not None and shape is not None:
        example = torch.zeros(_parsed_shape(shape))
        network = load_packed(file, _built(model)).eval()
        return Exported(network, example, PackedFile(file).manifest.about)
    known = plugins.find_network(file)
    if known is None:
        raise ValueError(
            f"{file} does not say how to build its network; "
            "give --model module:function and --input SHAPE, such as 1x3x32x32"
        )
    return Exported(known.model, known.example, known.about, known.training_images)


def _parsed_shape(text: str) -> tuple[int, ...]:
    if not re.fullmatch(r"[1-9]\d{0,8}(x[1-9]\d{0,8})*", text):
        raise UsageError(f"--input {text}: write the shape as numbers, such as 1x3x32x32")
    return tuple(int(number) for number in text.split("x"))


def _built(name: str) -> nn.Module:
    """What the function of that name makes."""
    module_name, _, function_name = name.partition(":")
    if not module_name or not function_name:
        raise UsageError(f"--model {name}: write it as module:function")
    if "" not in sys.path:
        sys.path.insert(0, "")  # as for `python -m`: the user's module lies where they work
    try:
        function = getattr(importlib.import_module(module_name), function_name)
        built = function()
    except Exception as error:  # it is the user's code
        reason = f"{type(error).__name__}: {error}"
        raise ValueError(f"--model {name} cannot build a network ({reason})") from error
    if not isinstance(built, nn.Module):
        raise ValueError(f"--model {name} gave a {type(built).__name__}, not a torch.nn.Module")
    return built
