"""The weights of BinaryRelax: the model's parameters hold x, and beside each lies its y."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from binaryrelax.optim.arguments import refuse_unfit
from binaryrelax.optim.finiteness import FinitenessWatch
from binaryrelax.optim.fused import FusedWeights
from binaryrelax.optim.relaxation import mixing_weight, relax_
from binaryrelax.optim.sharding import drop_gathered_copies
from binaryrelax.optim.written import (
    WrittenWeights,
    are_alike,
    refuse_moved,
    refuse_overwritten,
    refuse_replaced,
    refuse_shared_memory,
)
from binaryrelax.quantizers import Quantizer
from binaryrelax.quantizers.dtensors import is_dtensor


class RelaxedWeights:
    """Keeps y and writes x from it (eq. 11), by fused kernels where they can, else by reference.

    All tensors stay on their devices, and nothing here waits for one unless it says so.

    Args:
        base: the optimizer that moves y.

    Attributes:
        quantizers: weight -> its quantizer, in the order of selection.
        names: weight -> its name in messages.
        float_weights: weight -> y.
        watch: knows of y that became NaN or infinite.
        written: knows of weights that somebody else has written to.
    """

    def __init__(self, base: Optimizer) -> None:
        self.quantizers: dict[Tensor, Quantizer] = {}
        self.names: dict[Tensor, str] = {}
        self.float_weights: dict[Tensor, Tensor] = {}
        self.watch = FinitenessWatch(self.names)
        self.written = WrittenWeights()
        self._fused = FusedWeights(base, self.watch.flags_on)
        self._places: list[int] = []  # where the weights were when none lay in another's memory
        self._sharded: list[Tensor] = []
        self._sharded_modules: dict[nn.Module, None] = {}  # in the order of selection
        self._mix: dict[torch.device, Tensor] = {}  # λ/(λ+1) as a scalar on each device
        self._filled: dict[torch.device, float] = {}  # what it was filled with

    def add(
        self,
        quantizers: Mapping[Tensor, Quantizer],
        names: Mapping[Tensor, str],
        sharded_modules: Iterable[nn.Module],
    ) -> None:
        """Take more weights, which become their own y; ``fill_mix`` and ``relax_anew`` must follow.

        Args:
            quantizers: those of the new weights.
            names: those of the new weights at least.
            sharded_modules: the modules under ``fully_shard`` that hold weights.

        Raises:
            ValueError: weights share memory; they are named and nothing is changed.
        """
        together = (*self.quantizers, *quantizers)
        refuse_shared_memory("BinaryRelax", together, self.float_weights, {**self.names, **names})
        self.watch.restart()  # there is more to watch now
        self.written.restart()
        self._fused.forget()
        for weight, quantizer in quantizers.items():
            self.quantizers[weight], self.names[weight] = quantizer, names[weight]
            self.float_weights[weight] = weight.detach().clone()
        self._sharded = [weight for weight in self.quantizers if is_dtensor(weight)]
        self._sharded_modules |= dict.fromkeys(sharded_modules)
        for device in {weight.device for weight in quantizers} - self._mix.keys():
            self._mix[device] = torch.zeros((), dtype=torch.float64, device=device)

    def fill_mix(self, strength: float) -> None:
        """Have λ = ``strength`` write x from now on."""
        wanted = mixing_weight(strength)
        for device, mix in self._mix.items():
            if self._filled.get(device) != wanted:
                mix.fill_(wanted)
                self._filled[device] = wanted

    def relax(self) -> None:
        """p <- x, from y with the current λ (eq. 11). After ``lent_to_base`` this ends the step."""
        self._fused.relax(self._mix)
        self._relax_by_reference(self._fused.others)
        self.written.remember(self.quantizers)

    @torch.no_grad()
    def relax_anew(self) -> None:
        """The same outside a step, when weights may have joined or moved to other memory."""
        self._fused.prepare(self.float_weights, self.quantizers)
        self.relax()

    def copies_to_restore(self) -> dict[Tensor, Tensor]:
        """x of the weights that cannot be made again, the sharded ones, for ``lent_to_base``."""
        return {weight: weight.detach().clone() for weight in self._sharded}

    @contextmanager
    def lent_to_base(
        self, kept: Mapping[Tensor, Tensor], *, has_closure: bool
    ) -> Iterator[dict[Tensor, Tensor]]:
        """Inside, ``base`` finds y in the parameters; after, y is what it made of that.

        Yields the weights to look at when ``base`` has moved them; the kernels look at the others.
        After a failure inside x and y are as before, x of some weights as in ``kept``.
        """
        copied = self._copied(has_closure=has_closure)
        try:
            self._load(copied)
            with self._fused.beside_base():
                yield copied
        except BaseException:
            self._fused.give_up_step()
            self._restore(kept)
            raise
        self._store(copied)

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

    @contextmanager
    def projected(self) -> Iterator[None]:
        """Inside, the parameters hold proj_Q(y); after, exactly x again."""
        try:
            with self.written.restored():
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
        self._refuse_misplaced("adopt_weights()")
        replaced = self._replaced(wait=True)
        for weight in replaced:
            refuse_unfit(weight, self.quantizers[weight], self.names[weight])
        for weight in replaced:
            self.float_weights[weight].copy_(weight)
        self.written.forget()
        self.relax_anew()

    def refuse_replaced(self, call: str) -> None:
        """Raise ValueError if the model holds weights that ``call`` would overwrite or pass over.

        Waits for the device.
        """
        self._refuse_misplaced(call)
        self.refuse_overwritten(call, wait=True)
        refuse_replaced(call, self._replaced(wait=True), self.names)

    def refuse_replaced_before_step(self, call: str) -> None:
        """The same for a step; what is not known without waiting is an error some steps later.

        That is what ``written.look()`` finds, which is to follow, or is part of a captured step.
        """
        self._refuse_misplaced(call)
        refuse_replaced(call, self._replaced(wait=False), self.names)
        self.refuse_overwritten(call, wait=False)

    def refuse_overwritten(self, call: str, *, wait: bool) -> None:
        """Raise ValueError if a step is known to have overwritten weights of somebody else."""
        refuse_overwritten(call, self.written.overwritten(wait=wait), self.names)

    def _refuse_misplaced(self, call: str) -> None:
        refuse_moved(call, self.float_weights, self.names)
        places = [weight.data_ptr() for weight in self.quantizers if not is_dtensor(weight)]
        if places != self._places:  # mostly nobody has moved one: then none shares memory either
            refuse_shared_memory(call, self.quantizers, self.float_weights, self.names)
            self._places = places

    @torch.no_grad()
    def _replaced(self, *, wait: bool) -> list[Tensor]:
        """The weights that hold other values than x, which is written anew where that may be."""
        differing = self.written.differing() if wait else []
        touched = dict.fromkeys((*self.written.touched(), *differing))
        found = {weight: weight.detach().clone() for weight in touched}
        if not found:
            return []
        self.watch.read(wait=True)
        self._fused.prepare(self.float_weights, self.quantizers)
        if not found.keys() <= self._fused.others.keys():
            self._fused.relax(self._mix)  # between equally near points it chooses by itself
        self._relax_by_reference({w: y for w, y in self._fused.others.items() if w in found})
        self.written.remember(self.quantizers)
        replaced = [weight for weight, values in found.items() if not are_alike(values, weight)]
        for weight in replaced:
            weight.copy_(found[weight])
        return replaced

    def _copied(self, *, has_closure: bool) -> dict[Tensor, Tensor]:
        """The weights that ``base`` moves a copy of; of the others y itself is moved.

        With a closure all are copied: it may fail when ``base`` has moved some already.
        """
        self._fused.prepare(self.float_weights, self.quantizers)
        return self.float_weights if has_closure else self._fused.others

    def _load(self, copied: dict[Tensor, Tensor]) -> None:
        """p <- y: ``base`` moves what it finds in the parameters."""
        for weight, y in copied.items():
            weight.copy_(y)
        if copied is not self.float_weights:
            self._fused.lend_to_base()

    def _store(self, copied: dict[Tensor, Tensor]) -> None:
        """y <- p."""
        for weight, y in copied.items():
            y.copy_(weight)
        if copied is not self.float_weights:
            self._fused.take_back()

    def _restore(self, kept: Mapping[Tensor, Tensor]) -> None:
        """p <- x of before the step; of sharded weights from their copies.

        To project those again would take all processes, and this one may be the only one to fail.
        """
        self._relax_by_reference({w: y for w, y in self.float_weights.items() if w not in kept})
        for weight, x in kept.items():
            weight.copy_(x)
        self.written.remember(self.quantizers)

    def _relax_by_reference(self, float_weights: Mapping[Tensor, Tensor]) -> None:
        """Eq. 11 weight by weight, from any float weights."""
        for weight, y in float_weights.items():
            projected = self.quantizers[weight].project_finite(y)
            relax_(weight, y, projected, self._mix[weight.device])
        drop_gathered_copies(self._sharded_modules)
