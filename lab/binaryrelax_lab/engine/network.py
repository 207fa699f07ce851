"""The network of a run before its first step."""

import threading
from pathlib import Path
from textwrap import shorten

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from binaryrelax_lab.engine.task import Task
from binaryrelax_lab.recipes import Recipe

_BUILDING = threading.Lock()


class UnfitStart(ValueError):
    """A file does not hold the network that a run is to start from."""


def new_network(task: Task, seed: int) -> nn.Module:
    """A network whose first weights depend on the seed only.

    One at a time: networks that are built side by side would draw from each other's numbers.
    """
    with _BUILDING, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return task.build()


def load_network(path: Path, recipe: Recipe) -> dict[str, Tensor]:
    """The tensors of a safetensors file, or of a state dict that torch has saved as .pt or .pth.

    An `UnfitStart` names a file that is something else. Of torch's files only tensors are read.
    """
    try:
        if path.suffix not in (".pt", ".pth"):
            return load_file(path)
        tensors = torch.load(path, map_location="cpu", weights_only=True)
        if not all(isinstance(value, Tensor) for value in tensors.values()):
            raise ValueError("it is no state dict")
        return tensors
    except Exception as error:  # safetensors and pickle raise errors of their own kinds
        reason = shorten(str(error), 160, placeholder=" ...")
        raise UnfitStart(
            f"{path}, the network that {recipe.name} starts from, cannot be read ({reason})"
        ) from error


def tensors_of(model: nn.Module) -> dict[str, Tensor]:
    """Weights and buffers by their names; tied ones once."""
    tied = _tied(model)
    return {name: tensor for name, tensor in model.state_dict().items() if name not in tied}


def _tied(model: nn.Module) -> dict[str, str]:
    """Further names of tensors, and the first."""
    first: dict[Tensor, str] = {}
    named = model.state_dict(keep_vars=True)
    for name, tensor in named.items():
        first.setdefault(tensor, name)
    return {name: first[tensor] for name, tensor in named.items() if first[tensor] != name}


def with_tied(tensors: dict[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """What `tensors_of` gave, with the further names of tied ones."""
    again = {name: tensors[first] for name, first in _tied(model).items() if first in tensors}
    return again | tensors


def take_over(model: nn.Module, tensors: dict[str, Tensor], recipe: Recipe) -> None:
    """Gives the model these tensors; an `UnfitStart` if they are those of another network."""
    try:
        model.load_state_dict(with_tied(tensors, model))
    except RuntimeError as error:  # it lists every tensor that does not fit
        reason = shorten(str(error).partition(":")[2], 160, placeholder=" ...")
        raise UnfitStart(cannot_start(recipe, reason)) from error


def cannot_start(recipe: Recipe, reason: str) -> str:
    """Says that a recipe has been given the weights of another network."""
    return (
        f"{recipe.name} cannot start from another network than {recipe.network} for its data "
        f"({reason})"
    )
