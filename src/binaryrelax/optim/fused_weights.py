"""Which weights the fused kernels relax, and doing it; the others are left to the reference."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from binaryrelax.optim.device_flags import is_capturing
from binaryrelax.optim.fused_descent import GroupDescents, has_known_step
from binaryrelax.quantizers import Quantizer

if TYPE_CHECKING:
    from binaryrelax.kernels.descent import Descent
    from binaryrelax.kernels.fused_relaxation import FusedRelaxation

GroupKey = tuple[torch.device, Quantizer, int]  # the last is the place among base's param groups
Flags = Callable[[torch.device], tuple[Tensor, list[Tensor]]]  # raised flags, and whose they are


class FusedWeights:
    """The kernels of all weights that they can relax: those on a CUDA device, in float32.

    Args:
        base: the optimizer that moves y. If it is plain SGD or AdamW, the kernels take its step.
        flags: gives the flags of a device, one per weight, which are raised for weights that are
            not finite; the kernels see that on the way.

    Attributes:
        others: weight -> y, of those left to the reference.
    """

    def __init__(self, base: Optimizer, flags: Flags) -> None:
        self._base, self._flags = base, flags
        self.forget()

    def forget(self) -> None:
        """Find out anew which weights there are, and where."""
        self._is_prepared = False
        self._groups: list[_Group] = []
        self._relaxed: dict[Tensor, Tensor] = {}  # weight -> its own memory, which holds x
        self._float: dict[Tensor, Tensor] = {}  # weight -> y
        self._descents: list[Descent] = []  # steps that the kernels are about to take
        self._side: torch.cuda.Stream | None = None  # where base is at work
        self.others: dict[Tensor, Tensor] = {}

    def prepare(
        self, float_weights: Mapping[Tensor, Tensor], quantizers: Mapping[Tensor, Quantizer]
    ) -> None:
        """Take over what can be fused; cheap if nothing has changed since the last call."""
        if self._is_prepared and self._are_current():
            return
        self.forget()
        self._is_prepared, self.others = True, dict(float_weights)
        fused = {w: y for w, y in float_weights.items() if has_kernels(w, y, quantizers[w])}
        for (device, quantizer, place), ys in self._grouped(fused, quantizers):
            self._groups.append(_Group(quantizer, place, ys, self._flags(device)))
        for weight in fused:
            self._relaxed[weight], self._float[weight] = weight.data, self.others.pop(weight)

    @contextmanager
    def step(self) -> Iterator[None]:
        """Inside, base moves y without a copy; ``relax`` must follow.

        The parameters lend their names to y's memory. If the kernels can take base's step
        themselves, base does not see the gradients instead, and ``relax`` takes the step.
        After, the parameters hold x and their gradients again; after a failure, nothing waits.
        """
        if not self._groups:
            yield
            return
        self._descents = self._possible_descents()
        lending = _hidden_gradients(self._relaxed) if self._descents else self._lent_memory()
        try:
            with lending, self._beside_kernels():
                yield
        except BaseException:
            self._descents, self._side = [], None
            raise

    def relax(self, mix: Mapping[torch.device, Tensor]) -> None:
        """Write x of the weights taken over; ``mix`` is λ/(λ+1), a scalar on each device.

        After ``step`` this takes the step that was kept from base, too.
        """
        # Taken once: should a launch fail, no later call may take these steps.
        descents, self._descents = self._descents, []
        side, self._side = self._side, None
        for place, group in enumerate(self._groups):
            group.relax(mix[group.device], descents[place] if descents else None)
        if side is not None:
            torch.cuda.current_stream().wait_stream(side)
        # Autograd must notice that x has changed, as it does when torch itself writes it.
        if self._relaxed:
            torch.autograd.graph.increment_version(list(self._relaxed))

    def __getstate__(self) -> dict[str, Any]:
        return vars(FusedWeights(self._base, self._flags))  # tables of addresses do not travel

    def _grouped(
        self, float_weights: Mapping[Tensor, Tensor], quantizers: Mapping[Tensor, Quantizer]
    ) -> list[tuple[GroupKey, dict[Tensor, Tensor]]]:
        """The weights that one launch can serve: of one device, quantizer and parameter group."""
        groups = enumerate(self._base.param_groups)
        places = {parameter: place for place, group in groups for parameter in group["params"]}
        together: list[tuple[GroupKey, dict[Tensor, Tensor]]] = []  # a quantizer may have no hash
        for weight, y in float_weights.items():
            key = (weight.device, quantizers[weight], places[weight])
            alike = [ys for other, ys in together if other == key]
            if not alike:
                alike = [{}]
                together.append((key, alike[0]))
            alike[0][weight] = y
        return together

    def _are_current(self) -> bool:
        is_laid_out = all(w.stride() == x.stride() for w, x in self._relaxed.items())
        return is_laid_out and all(group.is_current() for group in self._groups)

    def _possible_descents(self) -> list[Descent]:
        """The steps of all groups, or none if base must take one of them itself."""
        descents: list[Descent] = []
        for group in self._groups if has_known_step(self._base) else ():
            descent = group.next_descent(self._base)
            if descent is None:
                return []
            descents.append(descent)
        return descents

    @contextmanager
    def _lent_memory(self) -> Iterator[None]:
        """Inside, the parameters hold y: it is their memory."""
        for weight, y in self._float.items():
            weight.data = y
        try:
            yield
        finally:
            for weight, x in self._relaxed.items():
                weight.data = x

    @contextmanager
    def _beside_kernels(self) -> Iterator[None]:
        """In a captured graph, what is done inside runs while the kernels take their step.

        Base has little to do then, but a kernel of its own costs time even so.
        """
        is_alone = not self.others and len({group.device for group in self._groups}) == 1
        if not (self._descents and is_alone and is_capturing()):
            yield
            return
        self._side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._side):
            yield


class _Group:
    """Weights of one device and quantizer that base has in the same parameter group."""

    def __init__(
        self,
        quantizer: Quantizer,
        place: int,
        float_weights: dict[Tensor, Tensor],
        flags: tuple[Tensor, list[Tensor]],
    ) -> None:
        from binaryrelax.kernels.fused_relaxation import FusedRelaxation

        raised, owners = flags
        places = {owner: i for i, owner in enumerate(owners)}
        pairs, flag_of = list(float_weights.items()), [places[weight] for weight in float_weights]
        self.device = raised.device
        self._kernels: FusedRelaxation = FusedRelaxation(quantizer, pairs, raised, flag_of)
        self._descents = GroupDescents(place, float_weights)

    def is_current(self) -> bool:
        return self._kernels.is_current()

    def next_descent(self, base: Optimizer) -> Descent | None:
        """The step that base would take now, if the kernels can take it."""
        descent = self._descents.next(base)
        if descent is not None and not self._kernels.has_compiled(descent) and is_capturing():
            return None  # a graph is no place to compile a kernel
        return descent

    def relax(self, mix: Tensor, descent: Descent | None) -> None:
        if torch.cuda.current_device() == self.device.index:  # where kernels go
            self._kernels(mix, descent)
        else:
            with torch.cuda.device(self.device):
                self._kernels(mix, descent)


def has_kernels(weight: Tensor, y: Tensor, quantizer: Quantizer) -> bool:
    """Whether there are kernels that relax this weight where it is."""
    if not weight.is_cuda or find_spec("triton") is None:
        return False
    from binaryrelax.kernels.fused_relaxation import is_fusible

    return is_fusible(weight, y, quantizer)


@contextmanager
def _hidden_gradients(weights: Iterable[Tensor]) -> Iterator[None]:
    """Inside, the weights have no gradients, so that base leaves them alone."""
    gradients = {weight: weight.grad for weight in weights}
    for weight in gradients:
        weight.grad = None
    try:
        yield
    finally:
        for weight, gradient in gradients.items():
            weight.grad = gradient
