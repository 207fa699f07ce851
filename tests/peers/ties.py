"""Which parameters of a model are one, under several names, and whether they still are."""

from __future__ import annotations

from collections import defaultdict

from torch import Tensor, nn

from binaryrelax import PackedLayer


def tied_names(model: nn.Module) -> list[list[str]]:
    """The names of every parameter that has more than one."""
    names: dict[Tensor, list[str]] = defaultdict(list)
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names[parameter].append(name)
    return [found for found in names.values() if len(found) > 1]


def untied_names(model: nn.Module, ties: list[list[str]]) -> list[list[str]]:
    """Those of the ties that the model does not have: the names stand for memory of their own."""
    return [names for names in ties if len({_memory(model, name) for name in names}) > 1]


def _memory(model: nn.Module, name: str) -> tuple[str, int]:
    """Where the parameter lies; of a packed weight, where its codes do."""
    path, _, part = name.rpartition(".")
    module = model.get_submodule(path)
    if isinstance(module, PackedLayer) and part == "weight":
        return "codes", module.codes.data_ptr()
    return "float", getattr(module, part).data_ptr()
