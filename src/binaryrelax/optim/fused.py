"""Which weights the fused kernels relax, and doing it; the others are left to the reference."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.optim import SGD, Optimizer, optimizer as optimizer_module

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
        # Taken once: should a launch fail, no later call may take these steps.
        descents, self._descents = self._descents, []
        side, self._side = self._side, None
        for place, group in enumerate(self._groups or []):
            group.relax(mix[group.device], descents[place] if descents else None)
        if side is not None:
            torch.cuda.current_stream().wait_stream(side)
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
        is_laid_out = all(w.stride() == x.stride() for w, x in self._relaxed.items())
        return is_laid_out and all(group.is_current() for group in self._groups or [])

    def _possible_descents(self) -> list[Descent]:
        """The steps of all groups, or none if base must take one of them itself."""
        if type(self._base) is not SGD or has_hooks(self._base):  # a subclass may step otherwise
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
        self._ys = list(float_weights.values())
        self._velocities: list[Tensor] | None = None
        self._kinds: set[int] = set()  # of steps whose kernels are compiled
        self._own_lr = torch.zeros((), dtype=torch.float32, device=self.device)
        self._lr_in_own: float | None = None

    def is_current(self) -> bool:
        return self._kernels.is_current()

    def relax(self, mix: Tensor, descent: Descent | None) -> None:
        if descent is not None:
            self._kinds.add(descent.kind)
        if torch.cuda.current_device() == self.device.index:  # where kernels go
            self._kernels(mix, descent)
        else:
            with torch.cuda.device(self.device):
                self._kernels(mix, descent)

    def descent(self, base: Optimizer) -> Descent | None:
        """The step that base would take now, if the kernels can take it."""
        from binaryrelax.kernels.sgd import Descent

        settings = base.param_groups[self._place]
        keys = ("momentum", "dampening", "weight_decay", "nesterov")
        numbers = {key: settings[key] for key in keys}
        is_plain = not (settings["maximize"] or settings["differentiable"])
        if not is_plain or any(isinstance(number, Tensor) for number in numbers.values()):
            return None
        gradients = self._laid_out([weight.grad for weight in self.float_weights])
        velocities: list[Tensor] | None = []
        if settings["momentum"] != 0:  # base makes them in its first step
            velocities = self._known_velocities(base)
        if gradients is None or velocities is None:
            return None
        descent = Descent(gradients, velocities, self._lr(settings["lr"]), **numbers)
        if descent.kind not in self._kinds and torch.cuda.is_current_stream_capturing():
            return None  # a graph is no place to compile a kernel
        return descent

    def _known_velocities(self, base: Optimizer) -> list[Tensor] | None:
        """Base's momentum buffers; they mostly are the tensors that they were before."""
        states = [base.state.get(weight) for weight in self.float_weights]
        found = [state.get("momentum_buffer") if state else None for state in states]
        if any(old is not new for old, new in zip_longest(self._velocities or [], found)):
            sizes = [None if v is None else v.shape for v in found]
            is_whole = sizes == [y.shape for y in self._ys]
            self._velocities = self._laid_out(found) if is_whole else None
        return self._velocities

    def _laid_out(self, tensors: list[Tensor | None]) -> list[Tensor] | None:
        """The tensors, if each lies in memory as its float weight does."""
        alike = [
            tensor
            for tensor, y, stride in zip(tensors, self._ys, self._strides, strict=True)
            if tensor is not None
            and tensor.layout is torch.strided
            and tensor.dtype is torch.float32
            and (tensor.stride() == stride or _lies_as(tensor, y))
        ]
        return alike if len(alike) == len(self._strides) else None

    def _lr(self, lr: float | Tensor) -> Tensor:
        """The learning rate as a scalar on the device, without waiting for it."""
        if isinstance(lr, Tensor) and lr.is_cuda:
            return lr.to(self.device, torch.float32, non_blocking=True)
        if torch.cuda.is_current_stream_capturing():  # replays must not change that of other steps
            return torch.full((), float(lr), dtype=torch.float32, device=self.device)
        if self._lr_in_own != float(lr):
            self._lr_in_own = float(lr)
            self._own_lr.fill_(self._lr_in_own)
        return self._own_lr


def _places_of_groups(base: Optimizer) -> dict[Tensor, int]:
    groups = enumerate(base.param_groups)
    return {parameter: place for place, group in groups for parameter in group["params"]}


def has_hooks(base: Optimizer) -> bool:
    """Whether someone looks at base's gradients when it steps."""
    everywhere = vars(optimizer_module)
    return bool(
        base._optimizer_step_pre_hooks
        or base._optimizer_step_post_hooks
        or everywhere.get("_global_optimizer_pre_hooks")
        or everywhere.get("_global_optimizer_post_hooks")
    )


def _lies_as(tensor: Tensor, y: Tensor) -> bool:
    """The same without strides that do not matter, those of dimensions of size 1."""
    if tensor.shape != y.shape:
        return False
    strides = zip(tensor.stride(), y.stride(), y.shape, strict=True)
    return all(mine == its for mine, its, size in strides if size > 1)
