"""Which weights the fused kernels relax, and doing it; the others are left to the reference."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.optim import SGD, Optimizer

from binaryrelax.quantizers import Quantizer

if TYPE_CHECKING:
    from binaryrelax.kernels.fused import FusedRelaxation
    from binaryrelax.kernels.sgd import Descent

Flags = Callable[[torch.device], tuple[Tensor, list[Tensor]]]  # raised flags, and whose they are


class FusedWeights:
    """The kernels of all weights that they can relax: those on a CUDA device, in float32.

    Args:
        base: the optimizer that moves y. If it is plain SGD, the kernels take its step themselves.
        flags: gives the flags of a device, one per weight, which are raised for weights that are
            not finite; the kernels see that on the way.
    """

    def __init__(self, base: Optimizer, flags: Flags) -> None:
        self._base, self._flags = base, flags
        self.forget()

    def __contains__(self, weight: object) -> bool:
        return weight in self._relaxed

    def forget(self) -> None:
        """Find out anew which weights there are, and where."""
        self._groups: list[_Group] | None = None
        self._relaxed: dict[Tensor, Tensor] = {}  # weight -> its own memory, which holds x
        self._float: dict[Tensor, Tensor] = {}  # weight -> y
        self._descents: list[Descent] = []  # steps that the kernels are about to take
        self._side: torch.cuda.Stream | None = None  # where base is at work
        self._gradients: dict[Tensor, Tensor | None] = {}  # kept from base meanwhile
        self.others: dict[Tensor, Tensor] = {}  # weight -> y, of those left to the reference

    def prepare(
        self, float_weights: Mapping[Tensor, Tensor], quantizers: Mapping[Tensor, Quantizer]
    ) -> None:
        """Take over what can be fused; cheap if nothing has changed since the last call."""
        if self._groups is not None and self._are_current():
            return
        self.forget()
        self._groups, self.others = [], dict(float_weights)
        if not any(weight.is_cuda for weight in float_weights) or find_spec("triton") is None:
            return
        from binaryrelax.kernels.fused import is_fusible

        places = _places_of_groups(self._base)
        together: dict[tuple[torch.device, Quantizer, int], list[Tensor]] = {}
        for weight, y in float_weights.items():
            if weight.is_cuda and is_fusible(weight, y, quantizers[weight]):
                key = (weight.device, quantizers[weight], places[weight])
                together.setdefault(key, []).append(weight)
        for (_, quantizer, place), weights in together.items():
            flags = self._flags(weights[0].device)
            y_of = {weight: float_weights[weight] for weight in weights}
            self._groups.append(_Group(quantizer, place, y_of, flags))
            for weight in weights:
                self._relaxed[weight], self._float[weight] = weight.data, self.others.pop(weight)

    def relax(self, mix: Mapping[torch.device, Tensor]) -> None:
        """Write x of the weights taken over; ``mix`` is λ/(λ+1), a scalar on each device.

        After ``lend_to_base`` this takes the step that was kept from base, too.
        """
        for place, group in enumerate(self._groups or []):
            group.relax(mix[group.device], self._descents[place] if self._descents else None)
        self._descents = []
        if self._side is not None:
            torch.cuda.current_stream().wait_stream(self._side)
            self._side = None
        # Autograd must notice that x has changed, as it does when torch itself writes it.
        if self._relaxed:
            torch.autograd.graph.increment_version(list(self._relaxed))

    def lend_to_base(self) -> None:
        """Let base move y without a copy: the parameters lend their names to y's memory.

        If the kernels can take base's step themselves, base does not see the gradients instead.
        """
        self._descents = self._possible_descents()
        if self._descents:
            self._gradients = {weight: weight.grad for weight in self._relaxed}
            for weight in self._relaxed:
                weight.grad = None
        else:
            for weight, y in self._float.items():
                weight.data = y

    @contextmanager
    def beside_base(self) -> Iterator[None]:
        """Base's step, inside; in a captured graph it runs while the kernels take theirs.

        It has little to do then, but a kernel of its own costs time even so.
        """
        is_alone = not self.others and len({group.device for group in self._groups or []}) == 1
        if not (self._descents and is_alone and torch.cuda.is_current_stream_capturing()):
            yield
            return
        self._side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._side):
            yield

    def take_back(self) -> None:
        """The parameters hold x and their gradients again."""
        for weight, gradient in self._gradients.items():
            weight.grad = gradient
        if not self._descents:
            for weight, x in self._relaxed.items():
                weight.data = x
        self._gradients = {}

    def give_up_step(self) -> None:
        """The same after a failure: y stays as it is."""
        self.take_back()
        self._descents, self._side = [], None

    def __getstate__(self) -> dict[str, Any]:
        empty = FusedWeights(self._base, self._flags)  # tables of addresses do not travel
        return vars(empty)

    def _are_current(self) -> bool:
        return all(group.is_current() for group in self._groups or [])

    def _possible_descents(self) -> list[Descent]:
        """The steps of all groups, or none if base must take one of them itself."""
        has_hooks = self._base._optimizer_step_pre_hooks or self._base._optimizer_step_post_hooks
        if type(self._base) is not SGD or has_hooks:  # a subclass may step in another way
            return []
        descents = []
        for group in self._groups or []:
            descent = group.descent(self._base)
            if descent is None:
                return []
            descents.append(descent)
        return descents


class _Group:
    """Weights of one device and quantizer that base has in the same parameter group."""

    def __init__(
        self,
        quantizer: Quantizer,
        place: int,
        float_weights: dict[Tensor, Tensor],
        flags: tuple[Tensor, list[Tensor]],
    ) -> None:
        from binaryrelax.kernels.fused import FusedRelaxation

        raised, owners = flags
        places = {owner: i for i, owner in enumerate(owners)}
        self.float_weights, self._place = float_weights, place
        self.device = raised.device
        self._kernels: FusedRelaxation = FusedRelaxation(
            quantizer,
            list(float_weights.items()),
            raised,
            [places[weight] for weight in float_weights],
        )
        self._strides = [y.stride() for y in float_weights.values()]
        self._first = next(iter(float_weights))
        self._states: list[dict[str, Tensor]] = [{}]  # base's, of each weight
        self._velocities: list[Tensor] | None = None
        self._has_descended = False
        self._own_lr = torch.zeros((), device=self.device)
        self._lr_in_own: float | None = None

    def is_current(self) -> bool:
        return self._kernels.is_current()

    def relax(self, mix: Tensor, descent: Descent | None) -> None:
        self._has_descended |= descent is not None
        if torch.cuda.current_device() == self.device.index:  # where kernels go
            self._kernels(mix, descent)
        else:
            with torch.cuda.device(self.device):
                self._kernels(mix, descent)

    def descent(self, base: Optimizer) -> Descent | None:
        """The step that base would take now, if the kernels can take it."""
        from binaryrelax.kernels.sgd import Descent

        settings = base.param_groups[self._place]
        if settings["maximize"] or settings["differentiable"]:
            return None
        if not self._has_descended and torch.cuda.is_current_stream_capturing():
            return None  # a graph is no place to compile the kernel
        gradients = self._laid_out([weight.grad for weight in self.float_weights])
        velocities: list[Tensor] | None = []
        if settings["momentum"] != 0:  # base makes them in its first step
            velocities = self._known_velocities(base)
        if gradients is None or velocities is None:
            return None
        return Descent(
            gradients,
            velocities,
            self._lr(settings["lr"]),
            *(settings[key] for key in ("momentum", "dampening", "weight_decay", "nesterov")),
        )

    def _known_velocities(self, base: Optimizer) -> list[Tensor] | None:
        """Base's momentum buffers; they mostly are the tensors that they were before."""
        if base.state.get(self._first) is not self._states[0]:
            self._states = [base.state.get(weight, {}) for weight in self.float_weights]
        found = [state.get("momentum_buffer") for state in self._states]
        if any(old is not new for old, new in zip_longest(self._velocities or [], found)):
            self._velocities = self._laid_out(found)
        return self._velocities

    def _laid_out(self, tensors: list[Tensor | None]) -> list[Tensor] | None:
        """The tensors, if each lies in memory as its float weight does."""
        alike = [
            tensor
            for tensor, stride in zip(tensors, self._strides, strict=True)
            if tensor is not None
            and tensor.layout is torch.strided
            and tensor.dtype is torch.float32
            and tensor.stride() == stride
        ]
        return alike if len(alike) == len(self._strides) else None

    def _lr(self, lr: float | Tensor) -> Tensor:
        """The learning rate as a scalar on the device, without waiting for it."""
        if isinstance(lr, Tensor) and lr.device == self.device and lr.dtype == torch.float32:
            return lr
        if isinstance(lr, Tensor) and lr.is_cuda:
            self._lr_in_own = None
            return self._own_lr.copy_(lr, non_blocking=True)
        if self._lr_in_own != float(lr) or torch.cuda.is_current_stream_capturing():
            self._lr_in_own = float(lr)
            self._own_lr.fill_(self._lr_in_own)
        return self._own_lr


def _places_of_groups(base: Optimizer) -> dict[Tensor, int]:
    groups = enumerate(base.param_groups)
    return {parameter: place for place, group in groups for parameter in group["params"]}
