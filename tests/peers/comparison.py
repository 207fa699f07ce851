"""Whether a network of another library is the same after packing, saving and loading.

A row tells what happened to one network with one quantizer. It agrees if

* the packed network, in float32 and in bfloat16, gives the same bits where torch multiplies on a
  CPU, and elsewhere the same up to rounding (``is_rounding``); it generates the same tokens;
* what was saved is certified, and loaded into models of other weights gives the same bits;
* parameters that were one still are, also after the library's own ``tie_weights``;
* its output depends on every weight that is packed, or all this would say nothing.

Being refused with one line is no difference: the row tells of it. An error at any other time is.
"""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_model
from torch import Tensor, nn

from binaryrelax import (
    PackedFileError,
    PackedLayer,
    certify,
    load_packed,
    pack,
    save_packed,
    select_weights,
)
from binaryrelax.optim.selection import SelectedWeights
from binaryrelax.packed.engines import torch_only
from binaryrelax.quantizers import Quantizer
from tests.peers.network import Network, measure_batch_statistics_
from tests.peers.outputs import (
    distance,
    generated,
    idle_weights,
    is_rounding,
    outputs,
    same_bits,
)
from tests.peers.ties import tied_names, untied_names

AGREES = "agrees"
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}
WITHOUT_WEIGHTS = ("meta", "empty weights")  # models that have only shapes yet
_MOST_REFUSED = 500  # layers of one network


def compare(
    network: Network, quantizer: Quantizer, folder: Path, device: str = "cpu"
) -> dict[str, Any]:
    """The row of one network with one quantizer; files go into the folder and are removed."""
    return Comparison(network, quantizer, folder, torch.device(device)).row


class Comparison:
    """One network on its way from float to packed, to a file and back."""

    def __init__(
        self, network: Network, quantizer: Quantizer, folder: Path, device: torch.device
    ) -> None:
        self.network, self.device, self.file = network, device, folder / "packed.safetensors"
        self.inputs = network.make_inputs()
        self.differences: list[str] = []
        self.row: dict[str, Any] = {
            "name": network.name,
            "family": network.family,
            "library": f"{network.library} {version(network.library)}",
            "quantizer": repr(quantizer),
        }
        model = network.built(seed=0).to(device)
        self._put_into_q(model, quantizer)
        refused = self._measure(model, quantizer)
        found = f"DIFFERS: {'; '.join(self.differences)}" if self.differences else AGREES
        self.row["status"] = f"refused: {refused}" if refused else found

    def _put_into_q(self, model: nn.Module, quantizer: Quantizer) -> None:
        weights, self.row["warnings"] = _selected(model, quantizer)
        with torch.no_grad():
            for weight in weights:
                weight.copy_(quantizer.project(weight))
        inputs = {name: x.to(self.device) for name, x in self.inputs.items()}
        measure_batch_statistics_(model, inputs)
        for name in idle_weights(model, self.inputs, weights.names):
            self.differences.append(f"nothing is shown: the output does not depend on {name}")
        self.row["weights"] = sum(parameter.numel() for parameter in model.parameters())
        self.row["float_bytes"] = _float_bytes(model, self.file)

    def _measure(self, model: nn.Module, quantizer: Quantizer) -> str | None:
        """Fills the row; returns why there is no packed network, if there is none."""
        plain, ties = copy.deepcopy(model), tied_names(model)
        packed, refused = self._packed(model, quantizer)
        if packed is None:
            return refused
        with self._stage("ties"):
            self._expect_ties("packed", packed, ties)
            self._expect_ties("packed bfloat16", copy.deepcopy(packed).bfloat16(), ties)
        self.row["precisions"] = {}
        for name in PRECISIONS:
            with self._stage(name):
                self.row["precisions"][name] = self._precision(name, plain, packed)
        with self._stage("generate"):
            self._generate(plain, packed)
        with self._stage("file"):
            self._save_and_load(packed, ties)
        with self._stage("tie_weights"):
            self._tie_weights(packed, ties)
        return None

    def _packed(self, model: nn.Module, quantizer: Quantizer) -> tuple[nn.Module | None, str]:
        """The model, packed with as many layers as can be; what was refused goes into the row."""
        keep_float: list[str] = []
        refusals: list[str] = []
        self.row.update(keep_float=keep_float, refusals=refusals)
        while len(keep_float) < _MOST_REFUSED:
            try:
                pack(model, _selected(model, quantizer, keep_float)[0])
                break
            except ValueError as error:
                refusals.append(str(error))
                layer = re.search(r"layer '([^']+)'", str(error))
                if layer is None or layer[1] in keep_float:
                    return None, str(error)
                keep_float.append(layer[1])
        layers = [m for m in model.modules() if isinstance(m, PackedLayer)]
        codes = {layer.codes.data_ptr(): layer.format.num_weights for layer in layers}
        self.row.update(packed_layers=len(layers), packed_weights=sum(codes.values()))
        return model, ""

    def _precision(self, name: str, plain: nn.Module, packed: nn.Module) -> dict[str, Any]:
        """Float and packed network in one precision, each against the truth and the other."""
        dtype = PRECISIONS[name]
        exact, plain = plain, copy.deepcopy(plain).to(dtype)
        packed = copy.deepcopy(packed).to(dtype)
        wanted = outputs(plain, self.inputs)
        error = distance(wanted, outputs(copy.deepcopy(plain).double(), self.inputs))
        found: dict[str, Any] = {"float_error": error, "engines": {}}
        for engines in (torch_only, nullcontext):
            with engines():
                computed = outputs(packed, self.inputs)
            kernels = _layers_with_kernels(packed)
            engine = next(iter(kernels.values()), "torch")
            if engine not in found["engines"]:
                truth = outputs(_truth(plain, exact, kernels), self.inputs)
                found["engines"][engine] = {
                    "error": distance(computed, truth),
                    "difference": distance(computed, wanted),
                    "same_bits": same_bits(computed, wanted),
                    "layers_with_kernels": len(kernels),
                }
        for engine, record in found["engines"].items():
            agrees = record["same_bits"]
            if engine != "torch" or self.device.type != "cpu":
                agrees |= is_rounding(record["difference"], (record["error"], error), dtype)
            text = f"{record['difference']:.1e} from the float network, {record['error']:.1e} from "
            text += f"the truth, the float network {error:.1e}"
            self._expect(agrees, f"{name} by {engine}: {text}")
        return found

    def _generate(self, plain: nn.Module, packed: nn.Module) -> None:
        if not self.network.num_tokens:
            return
        wanted, found = (
            generated(model, self.inputs, self.network.num_tokens) for model in (plain, packed)
        )
        self.row["same_tokens"] = torch.equal(wanted, found)
        self._expect(self.row["same_tokens"], "other tokens are generated")

    def _save_and_load(self, packed: nn.Module, ties: list[list[str]]) -> None:
        save_packed(packed, self.file)
        certificate = certify(self.file)
        self.row.update(
            certified=certificate.ok, file_bytes=certificate.file_bytes, saving=certificate.saving
        )
        self._expect(certificate.ok, f"not certified: {certificate.reason}")
        loads = self.row["loads"] = {}
        expected = outputs(packed, self.inputs)
        for way, fresh in _fresh_models(self.network).items():
            loads[way] = self._loaded(way, fresh, expected, ties)
        rounded = copy.deepcopy(packed).bfloat16()
        expected = outputs(rounded, self.inputs)
        fresh = lambda: self.network.built(seed=1).bfloat16()  # noqa: E731
        loads["bfloat16"] = self._loaded("bfloat16", fresh, expected, ties)
        save_packed(rounded, self.file)
        loads["bfloat16 file"] = self._loaded("bfloat16 file", fresh, expected, ties)
        self.file.unlink()

    def _loaded(
        self,
        way: str,
        fresh: Callable[[], nn.Module],
        expected: list[Tensor],
        ties: list[list[str]],
    ) -> str:
        """What became of the file in a model that was built in this way."""
        try:
            model = fresh()
        except Exception as error:  # another library's, of any kind
            return f"not built: {_line(error)}"
        try:
            model = load_packed(self.file, model).to(self.device)
        except PackedFileError as error:
            may_be = way in WITHOUT_WEIGHTS  # where buffers may have no values that are not saved
            self._expect(may_be, f"{way}: loading is refused: {_without_path(error)}")
            return f"refused: {_without_path(error)}"
        with self._stage(f"loaded ({way})"):
            is_same = same_bits(outputs(model, self.inputs), expected)
            self._expect(is_same, f"loaded ({way}): other output")
            self._expect_ties(f"loaded ({way})", model, ties)
            return "equal" if is_same else "differs"
        return "differs"

    def _tie_weights(self, packed: Any, ties: list[list[str]]) -> None:
        """What the libraries call after loading: it changes nothing, or is refused."""
        if not hasattr(packed, "tie_weights"):
            return
        expected = outputs(packed, self.inputs)
        try:
            packed.tie_weights()
            self.row["tie_weights"] = "equal"
        except ValueError as error:
            self.row["tie_weights"] = f"refused: {error}"
        is_same = same_bits(outputs(packed, self.inputs), expected)
        self._expect(is_same, "other output after tie_weights()")
        self._expect_ties("after tie_weights()", packed, ties)

    def _expect_ties(self, when: str, model: nn.Module, ties: list[list[str]]) -> None:
        for names in untied_names(model, ties):
            self.differences.append(f"{when}: {' and '.join(names)} are no longer tied")

    def _expect(self, is_so: bool, difference: str) -> None:
        if not is_so:
            self.differences.append(difference)

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        """Whatever goes wrong inside is a difference: the float network has not failed."""
        try:
            yield
        except Exception as error:
            self.differences.append(f"{name}: {_line(error)}")


def _selected(
    model: nn.Module, quantizer: Quantizer, keep_float: list[str] | None = None
) -> tuple[SelectedWeights, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        weights = select_weights(model, quantizer, keep_float or ())
    return weights, [str(warning.message) for warning in caught]


def _fresh_models(network: Network) -> dict[str, Callable[[], nn.Module]]:
    """Ways to build a model for a file: with other weights, or with none yet."""

    def on_meta() -> nn.Module:
        with torch.device("meta"):
            return network.make()

    def without_weights() -> nn.Module:
        from accelerate import init_empty_weights

        with init_empty_weights():
            return network.make()

    ways = {"fresh": lambda: network.built(seed=1), "meta": on_meta}
    return {**ways, "empty weights": without_weights} if find_spec("accelerate") else ways


def _float_bytes(model: nn.Module, path: Path) -> int:
    """Of the float model as its library would save it: tied weights once."""
    save_model(model, str(path))
    size = path.stat().st_size
    path.unlink()
    return size


def _layers_with_kernels(model: nn.Module) -> dict[str, str]:
    """Layer -> engine, of the packed layers that another engine than torch has multiplied."""
    return {
        name: engine
        for name, layer in model.named_modules()
        if isinstance(layer, PackedLayer)
        for engine, made in layer._products.items()
        if made.product is not None
    }


@torch.no_grad()
def _truth(plain: nn.Module, exact: nn.Module, kernels: Iterable[str]) -> nn.Module:
    """The network in float64. Kernels keep scales in float32, so their weights are not rounded."""
    truth = copy.deepcopy(plain).double()
    for name in kernels:
        truth.get_submodule(name).weight.copy_(exact.get_submodule(name).weight)
    return truth


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def _without_path(error: PackedFileError) -> str:
    """The path is another one at every run."""
    return re.sub(r"\S*packed\.safetensors:?", "the file", str(error))
