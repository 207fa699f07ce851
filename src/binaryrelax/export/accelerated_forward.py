"""What takes the place of ``forward`` in a model that the native runtime runs as a whole."""

from __future__ import annotations

import inspect
import operator
import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from types import CodeType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook

from binaryrelax.export.program import Shape
from binaryrelax.packed.engines import ModeName, native, num_threads, torch_must_see
from binaryrelax.packed.packed_layer import PackedLayer

Container = type[tuple[Any, ...]] | type[list[Any]]


class AcceleratedForward:
    """Calls the runtime where that gives what the model's own code would give, else that code.

    Args:
        model: whose ``forward`` it becomes.
        content: of the file that the runtime reads.
        inputs: shapes of its inputs, without the batch.
        container: what the model puts its outputs into; None for a single tensor.
        mode: of the file.
    """

    def __init__(
        self,
        model: nn.Module,
        content: bytes,
        inputs: Sequence[Shape],
        container: Container | None,
        mode: ModeName,
    ) -> None:
        self._model, self._content = model, content
        self._inputs, self._container = list(inputs), container
        self._as_lowered = Watched(model, mode)
        self._complaints: set[str] = set()
        self._network: Any = None  # of binaryrelax_native

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        # Compilers come first: they cannot follow the rest.
        if torch.compiler.is_compiling() or options or not self._takes(inputs):
            return self.plain(*inputs, **options)
        obstacle = self._obstacle()
        if obstacle is not None:
            self._complain(obstacle)
            return self.plain(*inputs)
        try:
            return self.run(inputs)
        except ValueError:  # images of a size that the runtime does not take
            pass
        return self.plain(*inputs)

    def plain(self, *inputs: Any, **options: Any) -> Any:
        """What the model's own code gives."""
        return type(self._model).forward(self._model, *inputs, **options)

    def run(self, inputs: Sequence[Tensor]) -> Any:
        """What the runtime gives for tensors of float32 on the CPU.

        Raises:
            ValueError: it does not take inputs of these shapes.
        """
        network, threads = self._network, num_threads()
        if network is None or network.threads != threads:
            runtime = native()
            assert runtime is not None  # asked before
            network = self._network = runtime.load(self._content, threads=threads)
        outputs = network(*(x.numpy(force=True) for x in inputs))
        if self._container is None:
            return torch.from_numpy(outputs)
        return self._container(map(torch.from_numpy, outputs))

    def _takes(self, inputs: tuple[Any, ...]) -> bool:
        """Whether these are inputs for the runtime."""
        return len(inputs) == len(self._inputs) and all(
            isinstance(x, Tensor)
            and not torch_must_see(x)
            and x.is_cpu
            and x.dtype == torch.float32
            and x.dim() == 1 + len(shape)
            and x.shape[1] == shape[0]
            and x.numel() > 0
            for x, shape in zip(inputs, self._inputs, strict=True)
        )

    def _obstacle(self) -> str | None:
        """Why the model's own code has to run; "" where that is no surprise; None if it has not."""
        if self._as_lowered.is_trained_or_hooked():
            return ""
        if torch.is_grad_enabled() and self._as_lowered.wants_gradients():
            return (
                "its parameters ask for gradients; call it under torch.no_grad() or "
                "torch.inference_mode(), or freeze it with requires_grad_(False)"
            )
        if native() is None:
            return "binaryrelax-native is not installed; pip install ./native in the source folder"
        return self._as_lowered.change()

    def _complain(self, obstacle: str) -> None:
        """Once of each kind."""
        if obstacle and obstacle not in self._complaints:
            self._complaints.add(obstacle)
            warnings.warn(
                f"{type(self._model).__name__} runs without the native runtime: {obstacle}",
                stacklevel=5,  # of who calls the model
            )

    @property
    def __signature__(self) -> inspect.Signature:
        signature = inspect.signature(type(self._model).forward)
        _, *parameters = signature.parameters.values()
        return signature.replace(parameters=parameters)

    @property
    def __code__(self) -> CodeType:  # torch.export looks for the place of the code
        code: CodeType = type(self._model).forward.__code__
        return code

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_network": None}  # copies and pickles read it again


class Watched:
    """A model as it was, to notice when it no longer is so.

    Assignments to and of parameters, buffers and modules are seen, and writes that torch counts.
    It is asked at every call: loops over all modules or tensors are those of C.

    Args:
        model: what to watch.
        mode: that its packed layers have.
    """

    def __init__(self, model: nn.Module, mode: ModeName) -> None:
        self._modules = list(model.modules())
        self._layers = [m for m in self._modules if isinstance(m, PackedLayer)]
        self._mode = mode
        self._hooks = [
            hooks for m in self._modules[1:] for hooks in (m._forward_hooks, m._forward_pre_hooks)
        ]
        every = (d for m in self._modules for d in (m._parameters, m._buffers, m._modules))
        self._holders = [holder for holder in every if holder]
        self._held: list[Tensor | nn.Module | None] = list(_held_by(self._holders))
        self._was_changed = False
        self._look()

    def _look(self) -> None:
        self._tensors = [held for held in self._held if isinstance(held, Tensor)]
        self._parameters = [t for t in self._tensors if isinstance(t, nn.Parameter)]
        # An alias keeps the memory: no other tensor can come to lie at that address.
        self._aliases = [tensor.detach() for tensor in self._tensors]
        self._addresses = list(map(Tensor.data_ptr, self._tensors))
        if any(map(Tensor.is_inference, self._tensors)):  # torch does not count writes to them
            self._was_changed = True
        else:
            self._versions = list(map(_version, self._tensors))

    def is_trained_or_hooked(self) -> bool:
        """Whether a part is in training mode, or somebody looks at what goes through one."""
        has_hooks = any(self._hooks) or _has_any_global_hook()  # type: ignore[no-untyped-call]
        return has_hooks or any(map(_is_training, self._modules))

    def change(self) -> str | None:
        """What is no longer so, and what helps."""
        if {*map(_mode, self._layers)} != {self._mode}:
            return "set_mode has chosen another mode; accelerate(model, ...) again with that one"
        if self._was_changed or self._is_changed():
            return "its weights or layers have changed; accelerate(model, ...) again"
        return None

    def wants_gradients(self) -> bool:
        """Whether a parameter does."""
        return any(map(_requires_grad, self._parameters))

    def _is_changed(self) -> bool:
        return (
            sum(map(len, self._holders)) != len(self._held)
            or not all(map(operator.is_, _held_by(self._holders), self._held))
            or list(map(_version, self._tensors)) != self._versions
            or list(map(Tensor.data_ptr, self._tensors)) != self._addresses
        )

    def __getstate__(self) -> dict[str, Any]:
        """For copies and pickles, whose tensors begin to count anew."""
        of_tensors = ("_tensors", "_parameters", "_aliases", "_addresses", "_versions")
        kept = {name: value for name, value in self.__dict__.items() if name not in of_tensors}
        return {**kept, "_was_changed": self._was_changed or self._is_changed()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._look()


_is_training, _mode, _version, _requires_grad = map(
    operator.attrgetter, ("training", "_mode", "_version", "requires_grad")
)


def _held_by(holders: Iterable[dict[str, Any]]) -> Iterator[Any]:
    return chain.from_iterable(map(dict.values, holders))
