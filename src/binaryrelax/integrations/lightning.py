"""BinaryRelax in the Trainer of Lightning."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import Logger
from lightning.pytorch.strategies import DeepSpeedStrategy, FSDPStrategy
from lightning.pytorch.trainer.states import TrainerFn

from binaryrelax.integrations.progress import (
    Plan,
    figures,
    is_in_q,
    refuse_half_precision,
    schedule_over,
)
from binaryrelax.optim import BinaryRelax, GeometricGrowth, select_weights
from binaryrelax.quantizers import Quantizer


class RelaxCallback(Callback):
    """Trains a LightningModule with BinaryRelax; the module itself stays as it is.

    Before the first step it wraps the optimizer of ``configure_optimizers``, whose learning-rate
    schedulers go on to work. Every ``log_every_n_steps`` it logs ``relax/strength`` (λ),
    ``relax/phase``, ``relax/distance`` (of the model to Q) and ``relax/level_flips`` (the share of
    codes that changed since the last log), and at the end of training ``relax/in_q``, 1 or 0.

    Args:
        quantizer: the set that the weights of Linear and Conv layers are to end in.
        schedule: a function from the number of steps to a schedule. By default Phase I is 80 % of
            the training and λ grows from 1 to 150. ``functools.partial(GeometricGrowth.over,
            phase_one=0.9)`` and ``LinearMix.over`` are others; ``Hard()`` needs no steps.
        keep_float: patterns of layers to leave alone, as in ``select_weights``.
        validate_projected: in Phase I, validate once more with the projected weights. What is
            logged then has ``_projected`` behind its name.
    """

    def __init__(
        self,
        quantizer: Quantizer,
        *,
        schedule: Plan = GeometricGrowth.over,
        keep_float: Iterable[str] = (),
        validate_projected: bool = True,
    ) -> None:
        self.quantizer, self.schedule = quantizer, schedule
        self.keep_float, self.validate_projected = keep_float, validate_projected
        self.optimizer: BinaryRelax | None = None  # of the training that is under way
        self._steps_logged = 0

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Wrap the optimizer; the model has its weights by now, the optimizer not yet its state."""
        base = _only_optimizer(trainer)
        weights = select_weights(pl_module, self.quantizer, self.keep_float)
        refuse_half_precision(weights, "RelaxCallback", 'Trainer(precision="bf16-mixed")')
        schedule = schedule_over(self.schedule, _number_of_steps(trainer))
        self.optimizer, self._steps_logged = BinaryRelax(base, weights, schedule), 0
        trainer.optimizers = [self.optimizer]

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        """Log the figures where Lightning logs."""
        step = trainer.global_step
        if step != self._steps_logged and step % max(trainer.log_every_n_steps, 1) == 0:
            self._steps_logged = step
            pl_module.log_dict(figures(self._wrapped()))

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """In Phase I, validate the projected weights."""
        is_asked = self.validate_projected and not trainer.sanity_checking
        if is_asked and trainer.state.fn == TrainerFn.FITTING and self._wrapped().phase == 1:
            with (
                torch.inference_mode(False),
                self._wrapped().projected(),
                _renamed_logs(pl_module),
                _without_callbacks(trainer),
            ):
                loop = trainer.fit_loop.epoch_loop.val_loop
                loop._module_mode.restore(pl_module)  # which the outer run will restore once more
                loop.run()

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Say whether the model lies in Q."""
        found = {"relax/in_q": float(is_in_q(self._wrapped()))}
        loggers: list[Logger] = trainer.loggers
        for logger in loggers:
            logger.log_metrics(found, step=trainer.global_step)
            logger.save()

    def _wrapped(self) -> BinaryRelax:
        if self.optimizer is None:
            raise RuntimeError("RelaxCallback: there is no optimizer before Trainer.fit()")
        return self.optimizer


def _only_optimizer(trainer: Trainer) -> Any:
    """The optimizer to wrap, if it is of a kind that can be."""
    if isinstance(trainer.strategy, (DeepSpeedStrategy, FSDPStrategy)):
        raise ValueError(
            f"RelaxCallback: {type(trainer.strategy).__name__} flattens the parameters: "
            'train with strategy="ddp"'
        )
    if len(trainer.optimizers) != 1 or isinstance(trainer.optimizers[0], BinaryRelax):
        names = [type(optimizer).__name__ for optimizer in trainer.optimizers]
        raise ValueError(
            f"RelaxCallback: configure_optimizers gave {names}: it wraps one optimizer of "
            "torch.optim; build BinaryRelax yourself where there are more, and leave it out"
        )
    return trainer.optimizers[0]


def _number_of_steps(trainer: Trainer) -> int:
    steps = trainer.estimated_stepping_batches
    if not 0 < steps < math.inf:
        raise ValueError(
            f"RelaxCallback: the training has {steps} steps; set max_steps or max_epochs, or fix "
            "the schedule's steps, as in GeometricGrowth.reaching"
        )
    return int(steps)


@contextmanager
def _renamed_logs(module: Any) -> Iterator[None]:
    """Inside, whatever the module logs has "_projected" behind its name."""
    log = module.log

    def log_projected(name: str, *values: Any, **settings: Any) -> None:
        log(f"{name}_projected", *values, **settings)

    def log_dict_projected(values: Any, *others: Any, **settings: Any) -> None:
        for name, value in values.items():
            log_projected(name, value, *others, **settings)

    module.log, module.log_dict = log_projected, log_dict_projected
    try:
        yield
    finally:
        del module.log, module.log_dict


@contextmanager
def _without_callbacks(trainer: Trainer) -> Iterator[None]:
    """Inside, none hears of the validation: some count them, such as early stopping."""
    callbacks = trainer.callbacks
    trainer.callbacks = []
    try:
        yield
    finally:
        trainer.callbacks = callbacks
