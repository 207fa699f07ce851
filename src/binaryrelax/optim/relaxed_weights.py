"""The weights of BinaryRelax: the model's parameters hold x, and beside each lies its y."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from binaryrelax.optim.argument_checks import refuse_unfit
from binaryrelax.optim.finiteness_watch import FinitenessWatch
from binaryrelax.optim.foreign_writes import ForeignWrites, MemoryGuard
from binaryrelax.optim.fully_shard import drop_gathered_copies
from binaryrelax.optim.fused_weights import FusedWeights
from binaryrelax.optim.relaxation import mixing_weight, relax_
from binaryrelax.quantizers import Quantizer
from binaryrelax.quantizers.sharded_weights import is_dtensor


class StartingPoint(ABC):
    """What ``base`` finds in the parameters when it steps.

    Attributes:
        replaces_parameters: whether the x that the parameters hold has to make way for it, and
            with x whatever others have written there.
    """

    replaces_parameters: ClassVar[bool]

    @abstractmethod
    def load(self, float_weights: Mapping[Tensor, Tensor]) -> None:
        """Have the parameters hold it, given as weight -> y."""


class _AtFloatWeights(StartingPoint):
    """y^{k+1} = y^k - lr * gradient at x^k      (eq. 10)"""

    replaces_parameters = True

    def load(self, float_weights: Mapping[Tensor, Tensor]) -> None:
        for weight, y in float_weights.items():
            weight.copy_(y)


class _AtRelaxedWeights(StartingPoint):
    """y^{k+1} = x^k - lr * gradient at x^k      (eq. 2)"""

    replaces_parameters = False

    def load(self, float_weights: Mapping[Tensor, Tensor]) -> None:
        """Nothing to load: the parameters hold x."""


AT_FLOAT_WEIGHTS: StartingPoint = _AtFloatWeights()
AT_RELAXED_WEIGHTS: StartingPoint = _AtRelaxedWeights()


class RelaxedWeights:
    """Keeps y and writes x from it (eq. 11), by fused kernels where they can, else by reference.

    All tensors stay on their devices, and nothing here waits for one unless it says so.

    Args:
        base: the optimizer that moves y.
        starting_point: what it finds in the parameters when it does.

    Attributes:
        quantizers: weight -> its quantizer, in the order of selection.
        names: weight -> its name in messages.
        float_weights: weight -> y.
        watch: knows of y that became NaN or infinite.
        foreign_writes: knows of weights that somebody else has written to.
    """

    def __init__(self, base: Optimizer, starting_point: StartingPoint) -> None:
        self.quantizers: dict[Tensor, Quantizer] = {}
        self.names: dict[Tensor, str] = {}
        self.float_weights: dict[Tensor, Tensor] = {}
        self.watch = FinitenessWatch(self.names)
        self.foreign_writes = ForeignWrites(self.names)
        self._memory = MemoryGuard(self.float_weights, self.names)
        self._fused = FusedWeights(base, self.watch.flags_on)
        self._starting_point = starting_point
        self._sharded_modules: dict[nn.Module, None] = {}  # in the order of selection
        self._mix: dict[torch.device, Tensor] = {}  # λ/(λ+1) as a scalar on each device
        self._filled: dict[torch.device, float] = {}  # what it was filled with

    def add(
        self,
        quantizers: Mapping[Tensor, Quantizer],
        names: Mapping[Tensor, str],
        sharded_modules: Iterable[nn.Module],
    ) -> None:
        """Take more weights, which become their own y.

        ``set_strength`` and ``relax_anew`` must follow.

        Args:
            quantizers: those of the new weights.
            names: those of the new weights at least.
            sharded_modules: the modules under ``fully_shard`` that hold weights.

        Raises:
            ValueError: weights share memory; they are named and nothing is changed.
        """
        together = (*self.quantizers, *quantizers)
        self._memory.refuse_shared("BinaryRelax", together, {**self.names, **names})
        self.watch.restart()  # there is more to watch now
        self.foreign_writes.restart()
        self._fused.forget()
        for weight, quantizer in quantizers.items():
            self.quantizers[weight], self.names[weight] = quantizer, names[weight]
            self.float_weights[weight] = weight.detach().clone()
        self._sharded_modules |= dict.fromkeys(sharded_modules)
        for device in {weight.device for weight in quantizers} - self._mix.keys():
            self._mix[device] = torch.zeros((), dtype=torch.float64, device=device)

    def set_strength(self, strength: float) -> None:
        """Have λ = ``strength`` write x from now on."""
        wanted = mixing_weight(strength)
        for device, mix in self._mix.items():
            if self._filled.get(device) != wanted:
                mix.fill_(wanted)
                self._filled[device] = wanted

    @contextmanager
    def lent_to_base(self, *, has_closure: bool) -> Iterator[None]:
        """Inside, ``base`` finds its starting point in the parameters; y is what it makes of that.

        ``relax`` must follow. After a failure inside x and y are as before.

        Raises:
            ValueError: at the end; some y on the CPU became NaN or infinite.
        """
        self._fused.prepare(self.float_weights, self.quantizers)
        # A closure may fail when base has moved some y already: then none of them is y itself.
        are_all_copied = has_closure or not self._starting_point.replaces_parameters
        copied = self.float_weights if are_all_copied else self._fused.others
        kept = self._copies_to_restore()
        try:
            self._starting_point.load(copied)
            with nullcontext() if are_all_copied else self._fused.step():
                yield
                self.watch.look(copied)  # the kernels look at the others
        except BaseException:
            self._restore(kept)
            raise
        for weight, y in copied.items():
            y.copy_(weight)

    @contextmanager
    def relaxed_from_lent(self) -> Iterator[None]:
        """Inside ``lent_to_base``: the parameters hold x of the y that ``base`` is trying."""
        self.watch.look()
        trial = {weight: weight.clone() for weight in self.quantizers}
        self._relax_by_reference(trial)
        try:
            yield
        finally:
            for weight, y in trial.items():
                weight.copy_(y)

    def relax(self) -> None:
        """p <- x, from y with the current λ (eq. 11). After ``lent_to_base`` this ends the step."""
        self._fused.relax(self._mix)
        self._relax_by_reference(self._fused.others)
        self.foreign_writes.remember(self.quantizers)

    @torch.no_grad()
    def relax_anew(self) -> None:
        """The same outside a step, when weights may have joined or moved to other memory."""
        self._fused.prepare(self.float_weights, self.quantizers)
        self.relax()

    @contextmanager
    def projected(self) -> Iterator[None]:
        """Inside, the parameters hold proj_Q(y); after, exactly x again."""
        try:
            with self.foreign_writes.undone():
                with torch.no_grad():
                    for weight, y in self.float_weights.items():
                        weight.copy_(self.quantizers[weight].project_finite(y))
                drop_gathered_copies(self._sharded_modules)
                yield
        finally:
            drop_gathered_copies(self._sharded_modules)

    def adopt_replaced(self) -> None:
        """y <- p where somebody else has written other values than x; then x is written anew.

        Raises:
            ValueError: a weight is NaN or infinite; it is named and nothing is changed.
        """
        self._memory.refuse_misplaced("adopt_weights()")
        replaced = self.foreign_writes.replaced(self._rewrite, wait=True)
        for weight in replaced:
            refuse_unfit(weight, self.quantizers[weight], self.names[weight])
        for weight in replaced:
            self.float_weights[weight].copy_(weight)
        self.foreign_writes.forget()
        self.relax_anew()

    def refuse_to_move(self, call: str) -> None:
        """Raise ValueError if y is known to be lost, or a step would throw away others' weights.

        What is not known without waiting is an error some steps later: ``foreign_writes.look()``
        finds it, which is to follow, or is part of a captured step.
        """
        self.watch.refuse_found(wait=False)
        self._memory.refuse_misplaced(call)
        if self._starting_point.replaces_parameters:
            self.foreign_writes.refuse_replaced(call, self._rewrite, wait=False)
            self.foreign_writes.refuse_overwritten(call, wait=False)

    def refuse_replaced(self, call: str) -> None:
        """Raise ValueError if the model holds weights that ``call`` would overwrite or pass over.

        Waits for the device.
        """
        self._memory.refuse_misplaced(call)
        self.foreign_writes.refuse_overwritten(call, wait=True)
        self.foreign_writes.refuse_replaced(call, self._rewrite, wait=True)

    def _copies_to_restore(self) -> dict[Tensor, Tensor]:
        """x of the weights whose x cannot be made again from y.

        That is what others have written, if the step starts there. And to project sharded weights
        takes all processes, of which only one may fail.
        """
        starts_there = not self._starting_point.replaces_parameters
        kept = [weight for weight in self.quantizers if starts_there or is_dtensor(weight)]
        return {weight: weight.detach().clone() for weight in kept}

    def _restore(self, kept: Mapping[Tensor, Tensor]) -> None:
        """p <- x of before the step."""
        self._relax_by_reference({w: y for w, y in self.float_weights.items() if w not in kept})
        for weight, x in kept.items():
            weight.copy_(x)
        self.foreign_writes.remember(self.quantizers)

    def _rewrite(self, weights: Collection[Tensor]) -> None:
        """p <- x of these weights at least, as the last step has written it; waits for the device.

        Of fused weights all are written: between equally near points the kernels choose by
        themselves.
        """
        self.watch.refuse_found(wait=True)
        self._fused.prepare(self.float_weights, self.quantizers)
        others = self._fused.others
        if any(weight not in others for weight in weights):
            self._fused.relax(self._mix)
        self._relax_by_reference({w: y for w, y in others.items() if w in weights})
        self.foreign_writes.remember(self.quantizers)

    def _relax_by_reference(self, float_weights: Mapping[Tensor, Tensor]) -> None:
        """Eq. 11 weight by weight, from any float weights."""
        for weight, y in float_weights.items():
            projected = self.quantizers[weight].project_finite(y)
            relax_(weight, y, projected, self._mix[weight.device])
        drop_gathered_copies(self._sharded_modules)
