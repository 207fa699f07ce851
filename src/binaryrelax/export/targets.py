"""Where packed networks go, by name: a new target is a file beside this one and an entry here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor, nn

from binaryrelax.export.native import export_native
from binaryrelax.export.onnx import export_onnx
from binaryrelax.export.openvino import export_openvino


@dataclass(frozen=True)
class Target:
    """A format that other run times read.

    Args:
        export: writes a packed model, given an example of its input, to a path.
        suffixes: of the files that it writes; the path has the first.
    """

    export: Callable[[nn.Module, Tensor, Path], None]
    suffixes: tuple[str, ...]

    def written(self, path: Path) -> list[Path]:
        """The files that an export to the path leaves."""
        return [path, *(path.with_suffix(suffix) for suffix in self.suffixes[1:])]


TARGETS = {
    "native": Target(export_native, (".brx",)),
    "onnx": Target(export_onnx, (".onnx",)),
    "openvino": Target(export_openvino, (".xml", ".bin")),
}
