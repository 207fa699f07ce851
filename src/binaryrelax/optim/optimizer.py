"""BinaryRelax as an optimizer: any torch optimizer moves y, the model holds x."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from binaryrelax.optim.checkpoint import join_state, split_state
from binaryrelax.optim.finiteness import FinitenessWatch
from binaryrelax.optim.relaxation import mixing_weight, relax_
from binaryrelax.optim.schedules import Schedule
from binaryrelax.quantizers import Quantizer

Closure = Callable[[], float]


class BinaryRelax(Optimizer):
    """Wraps an optimizer so that the chosen weights move from float into Q (Algorithm 1).

    The model's parameters hold the relaxed weights x, the optimizer's state the float weights y:

    y^{k+1} = y^k - lr * gradient at x^k                              (eq. 10; ``base`` does this)
    x^{k+1} = (λ_k proj_Q(y^{k+1}) + y^{k+1}) / (λ_k + 1)             (eq. 11)

    From construction on the model holds x, made with schedule(0). Step number k, counted from 0,
    writes x with schedule(k); where that is inf (Phase II, eq. 12), x lies in Q.

    Args:
        base: any ``torch.optim`` optimizer that already holds the parameters. Its momentum, weight
            decay and learning rate act on y. Its ``param_groups`` are shared, so schedulers may
            be given either optimizer; its ``step`` must not be called any more.
        weights: parameter -> quantizer, as ``select_weights`` gives it.
        schedule: λ as a function of the step, such as ``GeometricGrowth(...)`` or ``Hard()``.
    """

    def __init__(
        self, base: Optimizer, weights: Mapping[Tensor, Quantizer], schedule: Schedule
    ) -> None:
        _refuse_wrong_arguments(type(self).__name__, base, weights, schedule)
        self.base, self.schedule = base, schedule
        self.quantizers: dict[Tensor, Quantizer] = {}
        self.names: dict[Tensor, str] = {}
        self.num_steps = 0
        self._mix: dict[torch.device, Tensor] = {}  # λ/(λ+1) as a scalar on each device
        self._watch = FinitenessWatch(self.names)
        self._num_projected = 0  # nesting depth of projected()
        super().__init__(base.param_groups, base.defaults)
        self.param_groups = base.param_groups  # one list: a scheduler reaches both optimizers
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
        return {weight: self.state[weight]["y"] for weight in self.quantizers}

    @torch.no_grad()
    def step(self, closure: Closure | None = None) -> float | None:  # type: ignore[override]
        """Move y with the gradient at x, then write the new x.

        A closure is evaluated at x, however often ``base`` calls it. If anything fails, x and y
        are as they were before the step.

        Raises:
            RuntimeError: inside ``projected()``.
            ValueError: y became NaN or infinite; the parameter is named. On CUDA the error may
                come some steps late.
        """
        self._refuse_inside_projected("step")
        try:
            self._load_float_weights()
            loss = self._step_base(closure)  # eq. 10: momentum and weight decay act on y
            self._watch.look()
            if not _is_capturing():
                self.prepare_step()
        except BaseException:
            self._relax()
            raise
        self._store_float_weights()
        self._relax()  # eq. 11
        return loss

    def prepare_step(self) -> None:
        """Advance to the next λ. ``step`` does this; call it by hand before each graph replay.

        The host writes λ/(λ+1) into a scalar on the device, where the captured step reads it.
        """
        self._watch.read(wait=False)
        self._fill_mix(self.schedule(self.num_steps))
        self.num_steps += 1

    def refuse_non_finite(self) -> None:
        """Raise ValueError if some y became NaN or infinite; waits for the device."""
        self._watch.read(wait=True)

    @contextmanager
    def projected(self) -> Iterator[None]:
        """Inside, the model holds proj_Q(y), as Phase II would; after, exactly x again."""
        self.refuse_non_finite()
        relaxed = {weight: weight.detach().clone() for weight in self.quantizers}
        self._num_projected += 1
        try:
            with torch.no_grad():
                for weight, y in self.float_weights.items():
                    weight.copy_(self.quantizers[weight].project_finite(y))
            yield
        finally:
            self._num_projected -= 1
            with torch.no_grad():
                for weight, x in relaxed.items():
                    weight.copy_(x)

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
        and the number of steps are in the groups.
        """
        self.refuse_non_finite()
        return join_state(super().state_dict(), self.base.state_dict(), self._description())

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from ``state_dict``; x is written anew from y.

        Raises:
            ValueError: it was saved with another method, schedule, quantizer or shape, or by
                another optimizer; the difference is named and nothing is changed.
        """
        self._refuse_inside_projected("load_state_dict")
        own, base = split_state(state_dict, self._description(), self._expected_shapes())
        float_weights = self.float_weights
        self.base.load_state_dict(base)
        super().load_state_dict(own)
        self.param_groups = self.base.param_groups  # load_state_dict made new lists
        for weight, y in float_weights.items():  # loaded into y's own memory and format
            self.state[weight]["y"] = y.copy_(self.state[weight]["y"])
        self.num_steps = state_dict["param_groups"][0]["relax_steps"]
        self._watch.forget()
        self._fill_mix(self.strength)
        self._relax()

    def _refuse_inside_projected(self, call: str) -> None:
        if self.is_projected:
            raise RuntimeError(f"{type(self).__name__}.{call}() inside projected(): leave it first")

    def _take_weights(self, given: Mapping[Tensor, Quantizer]) -> None:
        _refuse_wrong_weights(type(self).__name__, given)
        names = getattr(given, "names", {})
        labels = {w: names.get(w, f"weight {i} of {len(given)}") for i, w in enumerate(given)}
        weights = {w: q for w, q in given.items() if w not in self.quantizers}
        held = set(self._parameters())
        for weight, quantizer in weights.items():
            if weight not in held:
                raise ValueError(
                    f"{labels[weight]} of shape {tuple(weight.shape)} is not held by "
                    f"{type(self.base).__name__}: hand it that parameter too, or keep it float"
                )
            try:
                quantizer.check(weight.detach())
            except ValueError as error:
                raise ValueError(f"{labels[weight]}: {error}") from None
        _warn_of_half_precision([labels[w] for w in weights if w.dtype.itemsize < 4])
        self.refuse_non_finite()
        self._watch.restart()  # there is more to watch now
        for weight, quantizer in weights.items():
            self.quantizers[weight], self.names[weight] = quantizer, labels[weight]
            self.state[weight]["y"] = weight.detach().clone()
        self._fill_mix(self.strength)
        self._relax()

    def _parameters(self) -> Iterator[Tensor]:
        for group in self.param_groups:
            yield from group["params"]

    def _load_float_weights(self) -> None:
        """p <- y: ``base`` moves what it finds in the parameters."""
        for weight, y in self.float_weights.items():
            weight.copy_(y)

    def _store_float_weights(self) -> None:
        """y <- p."""
        for weight, y in self.float_weights.items():
            y.copy_(weight)

    def _step_base(self, closure: Closure | None) -> float | None:
        if closure is None:
            return self.base.step()

        @torch.no_grad()  # base enables gradients around the call
        def evaluate_at_relaxed() -> float:
            self._watch.look()
            trial = {weight: weight.clone() for weight in self.quantizers}  # base's current y
            self._relax(trial)
            try:
                with torch.enable_grad():
                    return closure()
            finally:
                for weight, y in trial.items():
                    weight.copy_(y)

        return self.base.step(evaluate_at_relaxed)

    @torch.no_grad()
    def _relax(self, float_weights: dict[Tensor, Tensor] | None = None) -> None:
        """p <- x, from y (or other float weights) with the current λ (eq. 11)."""
        for weight, y in (float_weights or self.float_weights).items():
            projected = self.quantizers[weight].project_finite(y)
            relax_(weight, y, projected, self._mix[weight.device])

    def _fill_mix(self, strength: float) -> None:
        if not strength >= 0:
            raise ValueError(f"{self.schedule!r} gave the strength {strength}: must be >= 0")
        for device in {weight.device for weight in self.quantizers}:
            if device not in self._mix:
                self._mix[device] = torch.zeros((), dtype=torch.float64, device=device)
            self._mix[device].fill_(mixing_weight(strength))

    def _description(self) -> list[dict[str, Any]]:
        """What a checkpoint must agree on, for each group, as plain data."""
        return [
            {
                "relax_method": type(self).__name__,
                "relax_schedule": repr(self.schedule),
                "relax_quantizers": [
                    repr(self.quantizers[p]) if p in self.quantizers else None
                    for p in group["params"]
                ],
                "relax_names": [self.names.get(p) for p in group["params"]],
                "relax_steps": self.num_steps,
            }
            for group in self.param_groups
        ]

    def _expected_shapes(self) -> dict[int, torch.Size]:
        return {i: p.shape for i, p in enumerate(self._parameters()) if p in self.quantizers}

    def __getstate__(self) -> dict[str, Any]:
        own = ("base", "schedule", "quantizers", "names", "num_steps", "_mix", "_watch")
        kept = {name: self.__dict__[name] for name in own}
        return {**super().__getstate__(), **kept, "_num_projected": 0}


def _is_capturing() -> bool:
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()


def _refuse_wrong_arguments(call: str, base: object, weights: object, schedule: object) -> None:
    if not isinstance(base, Optimizer) or isinstance(base, BinaryRelax):
        raise ValueError(
            f"{call}(base={type(base).__name__}): base must be a torch.optim optimizer"
        )
    if not isinstance(schedule, Schedule):
        raise ValueError(
            f"{call}(schedule={schedule!r}): need a Schedule like Hard() or GeometricGrowth(...)"
        )
    if not weights:
        raise ValueError(f"{call}(weights={weights!r}): need a dict from parameter to quantizer")


def _refuse_wrong_weights(call: str, weights: object) -> None:
    if not isinstance(weights, Mapping):
        raise ValueError(f"{call}(weights={weights!r}): need a dict from parameter to quantizer")
    for weight, quantizer in weights.items():
        if not isinstance(weight, Tensor) or not isinstance(quantizer, Quantizer):
            pair = f"{type(weight).__name__}: {quantizer!r}"
            raise ValueError(f"{call}(weights={{{pair}}}): need parameter: quantizer")


def _warn_of_half_precision(names: list[str]) -> None:
    if names:
        warnings.warn(
            f"float weights in half precision lose small updates ({', '.join(names)}); "
            "keep parameters in float32 and train under torch.autocast",
            stacklevel=4,
        )
