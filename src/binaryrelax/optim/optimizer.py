"""BinaryRelax as an optimizer: any torch optimizer moves y, the model holds x."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from binaryrelax.optim.argument_checks import (
    refuse_exchanged,
    refuse_unfit,
    refuse_unheld,
    refuse_wrong_arguments,
    refuse_wrong_weights,
    warn_of_half_precision,
)
from binaryrelax.optim.device_flags import is_capturing
from binaryrelax.optim.gradient_guard import guarded_gradients, has_hooks
from binaryrelax.optim.relaxed_weights import AT_FLOAT_WEIGHTS, RelaxedWeights, StartingPoint
from binaryrelax.optim.schedules import Schedule
from binaryrelax.optim.state_dict import described_groups, join_state, makes_state, split_state
from binaryrelax.quantizers import Quantizer

Closure = Callable[[], float]


class BinaryRelax(Optimizer):
    """Wraps an optimizer so that the chosen weights move from float into Q (Algorithm 1).

    The model's parameters hold the relaxed weights x, the optimizer's state the float weights y:

        y^{k+1} = y^k - lr * gradient at x^k                     (eq. 10)
        x^{k+1} = (λ_k proj_Q(y^{k+1}) + y^{k+1}) / (λ_k + 1)    (eq. 11)

    ``base`` takes the first step, this class the second.

    From construction on the model holds x, made with schedule(0). Step number k, counted from 0,
    writes x with schedule(k); where that is inf (Phase II, eq. 12), x lies in Q.
    So load weights before; those that are loaded later are refused until ``adopt_weights``.

    Of a model under ``fully_shard`` the weights, and y, are sharded; a scale is that of the whole
    weight. Build the optimizer after sharding, and call its methods on every process alike.

    Args:
        base: any ``torch.optim`` optimizer that already holds the parameters. Its momentum, weight
            decay and learning rate act on y. Its ``param_groups`` are shared, so schedulers may
            be given either optimizer; its ``step`` must not be called any more.
        weights: parameter -> quantizer, as ``select_weights`` gives it.
        schedule: λ as a function of the step, such as ``GeometricGrowth(...)`` or ``Hard()``.
        starting_point: what ``base`` moves into the next y; for ``ProjectedGradient``.

    Examples:
        >>> import torch
        >>> from binaryrelax import Binary, BinaryRelax, GeometricGrowth, select_weights
        >>> layer, x = torch.nn.Linear(4, 1), torch.randn(64, 4)
        >>> target = x @ torch.tensor([[0.5], [-0.5], [0.5], [-0.5]])
        >>> sgd = torch.optim.SGD(layer.parameters(), lr=0.1)
        >>> schedule = GeometricGrowth(1.0, 1.5, every=10, harden_at=80)
        >>> optimizer = BinaryRelax(sgd, select_weights(layer, Binary()), schedule)
        >>> for _ in range(100):
        ...     optimizer.zero_grad()
        ...     torch.nn.functional.mse_loss(layer(x), target).backward()
        ...     optimizer.step()
        >>> optimizer.phase, layer.weight.detach().round(decimals=2)
        (2, tensor([[ 0.5000, -0.5000,  0.5000, -0.5000]]))
    """

    def __init__(
        self,
        base: Optimizer,
        weights: Mapping[Tensor, Quantizer],
        schedule: Schedule,
        *,
        starting_point: StartingPoint = AT_FLOAT_WEIGHTS,
    ) -> None:
        refuse_wrong_arguments(type(self).__name__, base, weights, schedule, BinaryRelax)
        self.base, self.schedule = base, schedule
        self._weights = RelaxedWeights(base, starting_point)
        self.quantizers, self.names = self._weights.quantizers, self._weights.names
        self.num_steps = 0
        self.num_rewrites = 0  # how often x was written anew from other y, without a step
        self._num_projected = 0  # nesting depth of projected()
        self._is_held = False  # whether base was seen to hold the weights when a step began
        super().__init__(base.param_groups, base.defaults)
        self._share_with_base()
        self._take_weights(weights)

    @property
    def strength(self) -> float:
        """The λ that wrote the current x."""
        return self.schedule(max(self.num_steps - 1, 0))

    @property
    def phase(self) -> int:
        """1 while the weights are relaxed, 2 once they are held in Q."""
        return 2 if math.isinf(self.strength) else 1

    @property
    def is_projected(self) -> bool:
        """Whether the model holds proj_Q(y) instead of x at the moment."""
        return self._num_projected > 0

    @property
    def float_weights(self) -> dict[Tensor, Tensor]:
        """The float weights y of each quantized parameter."""
        return dict(self._weights.float_weights)

    @torch.no_grad()
    def step(self, closure: Closure | None = None) -> float | None:  # type: ignore[override]
        """Move y with the gradient at x, then write the new x.

        A closure is evaluated at x, however often ``base`` calls it. After a failure x and y are
        as they were before the step (on CUDA without a closure, they too may have moved), but the
        state of ``base`` and the other parameters may have moved: load a checkpoint to go on.

        Raises:
            RuntimeError: inside ``projected()``.
            ValueError: somebody has written other weights into the model, see ``adopt_weights``;
                or ``base`` differentiates gradients; or, without closure and hooks, a quantized
                weight on the CPU has a gradient that is NaN or infinite: nothing has moved. Or some
                y became so. On CUDA the error may come some steps late. The parameters are named.
        """
        if closure is None and makes_state(self):
            return self._make_state()
        self._refuse_to_step(closure)
        with self._weights.lent_to_base(has_closure=closure is not None):  # p <- y
            loss = self._step_base(closure)  # eq. 10: y <- y - lr * gradient at x
        self._advance()  # k <- k + 1, and its λ
        self._weights.relax()  # eq. 11: p <- x
        return loss

    def prepare_step(self) -> None:
        """Advance to the next λ. ``step`` does this; call it by hand before each graph replay.

        The host writes λ/(λ+1) into a scalar on the device, where the captured step reads it.
        """
        self._weights.refuse_to_move(type(self).__name__)
        self._advance()

    @torch.no_grad()
    def adopt_weights(self) -> None:
        """Go on from weights that were loaded into the model: they become y, x is written anew.

        Weights that are as the optimizer wrote them keep their y. λ and the state of ``base`` stay.

        Raises:
            ValueError: a weight is NaN or infinite; it is named and nothing is changed.
        """
        self._refuse_inside_projected("adopt_weights")
        self._weights.adopt_replaced()
        self.num_rewrites += 1

    def refuse_non_finite(self) -> None:
        """Raise ValueError if some y became NaN or infinite; waits for the device."""
        self._weights.watch.refuse_found(wait=True)

    def refuse_replaced(self, call: str) -> None:
        """Raise ValueError, named after ``call``, if others wrote weights; waits for the device."""
        self._weights.refuse_replaced(call)

    @contextmanager
    def projected(self) -> Iterator[None]:
        """Inside, the model holds proj_Q(y), as Phase II would; after, exactly x again."""
        self.refuse_non_finite()
        if not self.is_projected:
            self.refuse_replaced("projected()")
        self._num_projected += 1
        try:
            with self._weights.projected():
                yield
        finally:
            self._num_projected -= 1

    def add_param_group(
        self, param_group: dict[str, Any], weights: Mapping[Tensor, Quantizer] | None = None
    ) -> None:
        """Add a group to both optimizers; ``weights`` says which of it to quantize, and how.

        Weights that are quantized already stay as they are, so ``select_weights`` of the whole
        model will do.
        """
        if any(param_group is group for group in self.base.param_groups):
            super().add_param_group(param_group)  # torch's constructor, handing base's own groups
            return
        self._refuse_inside_projected("add_param_group")
        self.base.add_param_group(param_group)
        try:
            self._take_weights(weights or {})
        except BaseException:
            self.param_groups.pop()
            raise

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on bit by bit, as plain data in torch's flat layout.

        ``{"state": {i: {"y", "base.<key>", ...}}, "param_groups": [...]}``; schedule, quantizers
        and the number of steps are in the groups. Of weights loaded later it has the old y.
        """
        self.refuse_non_finite()
        self._weights.foreign_writes.refuse_overwritten("state_dict()", wait=True)
        own, base = super().state_dict(), self.base.state_dict()
        return join_state(own, base, self._indexed_float_weights(), self._description())

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from ``state_dict``; x is written anew from y.

        Raises:
            ValueError: it was saved with another method, schedule, quantizer or shape, or by
                another optimizer; the difference is named and nothing is changed.
        """
        self._refuse_inside_projected("load_state_dict")
        own, base = split_state(state_dict, self._description(), self._indexed_float_weights())
        self.base.load_state_dict(base)
        super().load_state_dict(own)
        for weight, y in self._weights.float_weights.items():
            y.copy_(self.state[weight]["y"])  # in y's own memory and format
        self._share_with_base()
        self.num_steps = state_dict["param_groups"][0]["relax_steps"]
        self.num_rewrites += 1
        self._weights.watch.forget()
        self._weights.foreign_writes.forget()
        self._relax_anew()

    def _share_with_base(self) -> None:
        """One list of groups, so that a scheduler reaches both optimizers, and one state.

        y is kept beside that state, which is thus empty as long as base's is: by this,
        ``torch.distributed.checkpoint`` knows that base has yet to make its own.
        """
        self.param_groups, self.state = self.base.param_groups, self.base.state

    def _refuse_inside_projected(self, call: str) -> None:
        if self.is_projected:
            raise RuntimeError(f"{type(self).__name__}.{call}() inside projected(): leave it first")

    def _take_weights(self, given: Mapping[Tensor, Quantizer]) -> None:
        refuse_wrong_weights(type(self).__name__, given)
        names = getattr(given, "names", {})
        labels = {w: names.get(w, f"weight {i} of {len(given)}") for i, w in enumerate(given)}
        weights = {w: q for w, q in given.items() if w not in self.quantizers}
        for weight, quantizer in weights.items():
            refuse_unheld(weight, self.base, labels[weight])
            refuse_unfit(weight, quantizer, labels[weight])
        warn_of_half_precision([labels[w] for w in weights if w.dtype.itemsize < 4])
        self.refuse_non_finite()
        self.refuse_replaced(type(self).__name__)
        self._weights.add(weights, labels, getattr(given, "sharded_modules", ()))
        self._relax_anew()

    def _relax_anew(self) -> None:
        """x from y with the λ of the last step, when either may be new."""
        self._weights.set_strength(self._strength_of(max(self.num_steps - 1, 0)))
        self._weights.relax_anew()

    def _make_state(self) -> float | None:
        """A step of ``base`` by which it makes its state; nothing moves."""
        self._refuse_inside_projected("step")
        with self._weights.foreign_writes.undone():
            self.base.step()
        return None

    def _refuse_to_step(self, closure: Closure | None) -> None:
        """Raise unless a step may begin. Nothing has moved then; what devices tell comes late."""
        self._refuse_inside_projected("step")
        if not self._is_held:
            refuse_exchanged(type(self).__name__, self.names, self.base)
            self._is_held = True
        if not is_capturing():  # else prepare_step asks, before each replay
            self._weights.refuse_to_move(type(self).__name__)
            self._strength_of(self.num_steps)
        self._weights.foreign_writes.look()
        if closure is None and not has_hooks(self.base):  # they could mend gradients yet
            self._weights.watch.refuse_bad_gradients()

    def _advance(self) -> None:
        """On to the next step's λ; not while a step is captured, which is none."""
        if is_capturing():  # prepare_step comes here before each replay
            return
        self._weights.set_strength(self._strength_of(self.num_steps))
        self.num_steps += 1

    def _strength_of(self, step: int) -> float:
        """The λ with which step number ``step`` writes x."""
        strength = self.schedule(step)
        if not strength >= 0:
            raise ValueError(f"{self.schedule!r} gave the strength {strength}: must be >= 0")
        return strength

    def _step_base(self, closure: Closure | None) -> float | None:
        """Base's step; a closure is evaluated at x, however often base calls it."""
        with guarded_gradients(self.base) as guard:
            if closure is None:
                return self.base.step()

            @torch.no_grad()  # base enables gradients around the call
            def evaluate_at_relaxed() -> float:
                guard.take_down()
                with self._weights.relaxed_from_lent(), torch.enable_grad():
                    loss = closure()
                guard.put_up()
                return loss

            return self.base.step(evaluate_at_relaxed)

    def _description(self) -> list[dict[str, Any]]:
        """What a checkpoint must agree on, for each group, as plain data."""
        shared = {
            "relax_method": type(self).__name__,
            "relax_schedule": repr(self.schedule),
            "relax_steps": self.num_steps,
        }
        return described_groups(self.param_groups, self.quantizers, self.names, shared)

    def _indexed_float_weights(self) -> dict[int, Tensor]:
        parameters = [parameter for group in self.param_groups for parameter in group["params"]]
        y_of = self._weights.float_weights
        return {i: y_of[p] for i, p in enumerate(parameters) if p in y_of}

    def __getstate__(self) -> dict[str, Any]:
        self._refuse_inside_projected("__getstate__")  # a copy would not find back to x
        own = ("base", "schedule", "quantizers", "names", "num_steps", "num_rewrites", "_weights")
        kept = {name: self.__dict__[name] for name in own}
        return {**super().__getstate__(), **kept, "_num_projected": 0, "_is_held": False}
