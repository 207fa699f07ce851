"""BinaryRelax in the Trainer of Hugging Face's transformers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from glob import escape
from typing import Any

from torch import nn
from torch.optim import Optimizer
from transformers import Trainer, TrainerCallback
from transformers.pytorch_utils import Conv1D
from transformers.trainer_optimizer import is_optimizer_factory

from binaryrelax.integrations.progress import (
    Plan,
    figures,
    is_in_q,
    refuse_half_precision,
    schedule_over,
)
from binaryrelax.optim import BinaryRelax, GeometricGrowth, SelectedWeights, select_weights
from binaryrelax.quantizers import Quantizer
from binaryrelax.quantizers.quantizable_layers import LAYERS, unwrapped

Groups = list[dict[str, Any]]  # parameters with their weight decay


def relaxed_optimizer(
    *,
    quantizer: Quantizer,
    schedule: Plan = GeometricGrowth.over,
    keep_float: Iterable[str] = (),
    quantize_head: bool = False,
    base: Callable[[Groups], Optimizer] | None = None,
) -> tuple[Callable[[], Callable[..., BinaryRelax]], dict[str, Any]]:
    """What ``Trainer(optimizer_cls_and_kwargs=...)`` takes to train with BinaryRelax.

    ``RelaxCallback`` must be among the Trainer's callbacks. The Trainer builds the optimizer when
    its training begins, and knows by then of how many steps it is.

    Args:
        quantizer: the set that the weights of Linear and Conv layers, and of GPT-2's ``Conv1D``,
            are to end in. ``Conv1D`` needs one scale per layer.
        schedule: a function from the number of steps to a schedule. By default Phase I is 80 % of
            the training and λ grows from 1 to 150. ``functools.partial(GeometricGrowth.over,
            phase_one=0.9)`` and ``LinearMix.over`` are others; ``Hard()`` needs no steps.
        keep_float: patterns of further layers to leave alone, as in ``select_weights``.
        quantize_head: as in ``chosen_weights``.
        base: makes the optimizer that moves y from groups of parameters. By default it is that of
            the TrainingArguments: ``optim``, ``learning_rate``, ``adam_beta1``, ``adam_beta2``,
            ``adam_epsilon``, ``optim_args``. The groups are the Trainer's: ``weight_decay``
            for all but norms and biases.
    """
    return _make_factory, {
        "quantizer": quantizer,
        "schedule": schedule,
        "keep_float": keep_float,
        "quantize_head": quantize_head,
        "base": base,
    }


def chosen_weights(
    model: nn.Module,
    quantizer: Quantizer,
    *,
    keep_float: Iterable[str] = (),
    quantize_head: bool = False,
) -> SelectedWeights:
    """The weights that ``relaxed_optimizer`` quantizes; ``pack`` takes them after the training.

    Embedding and head stay float. They are found by what they are, not by name: what
    ``get_input_embeddings`` and ``get_output_embeddings`` give, and all outside of ``base_model``,
    such as a classifier.

    Args:
        model: of transformers.
        quantizer: for the weights of Linear and Conv layers, and of GPT-2's ``Conv1D``, which needs
            one scale per layer and cannot be packed.
        keep_float: patterns of further layers to leave alone, as in ``select_weights``.
        quantize_head: take the head, too, and with it an embedding that is tied to it.
    """
    kept = (keep_float,) if isinstance(keep_float, str) else tuple(keep_float)
    head = () if quantize_head else tuple(_head_layers(model))
    return select_weights(model, quantizer, (*kept, *head), also=(Conv1D,))


class RelaxCallback(TrainerCallback):
    """Logs λ and what it does, evaluates the projected model, and looks whether the end is in Q.

    Beside each training loss the Trainer logs ``relax/strength`` (λ), ``relax/phase``,
    ``relax/distance`` (of the model to Q) and ``relax/level_flips`` (the share of codes that
    changed since the last log); at the end ``relax/in_q``, 1 or 0.

    Args:
        evaluate_projected: in Phase I, evaluate once more with the projected weights. The metrics
            have ``projected`` in their names, such as ``eval_projected_loss``.
    """

    def __init__(self, *, evaluate_projected: bool = True) -> None:
        self.evaluate_projected = evaluate_projected

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Refuse to go on from another step than the optimizer is at."""
        optimizer = _relaxed(_calling_trainer())
        if (optimizer.num_steps == 0) != (state.global_step == 0):
            raise ValueError(
                f"RelaxCallback: the Trainer is at step {state.global_step} and BinaryRelax at "
                f"{optimizer.num_steps}: make a new Trainer to train again, and resume from "
                "checkpoints that have the optimizer (save_only_model=False)"
            )

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float], **_: Any) -> None:
        """Log the figures in a record of their own, which goes to all reporters."""
        if "loss" in logs:
            trainer = _calling_trainer()
            trainer.log(figures(_relaxed(trainer)))

    def on_evaluate(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """In Phase I, evaluate the projected weights; their metrics join those of the Trainer."""
        trainer = _calling_trainer()
        if not (self.evaluate_projected and trainer.is_in_train):
            return
        optimizer = _relaxed(trainer)
        if optimizer.phase == 1:
            with optimizer.projected():
                found = _evaluate_again(trainer, given["eval_dataloader"], given["metrics"])
            trainer.log(dict(found))
            given["metrics"].update(found)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Say whether the model lies in Q."""
        trainer = _calling_trainer()
        trainer.log({"relax/in_q": float(is_in_q(_relaxed(trainer)))})


def _make_factory() -> Callable[..., BinaryRelax]:
    """The Trainer calls this, and what it gets with the model and the settings."""
    return _build


def _build(
    model: nn.Module,
    *,
    quantizer: Quantizer,
    schedule: Plan,
    keep_float: Iterable[str],
    quantize_head: bool,
    base: Callable[[Groups], Optimizer] | None,
) -> BinaryRelax:
    trainer = _calling_trainer()
    _refuse_unfit(trainer)
    weights = chosen_weights(model, quantizer, keep_float=keep_float, quantize_head=quantize_head)
    refuse_half_precision(weights, "relaxed_optimizer", "TrainingArguments(bf16=True)")
    groups = _parameter_groups(trainer, model)
    made = base(groups) if base else _default_base(trainer, model, groups)
    if callable(getattr(made, "eval", None)):
        raise ValueError(
            f"relaxed_optimizer: {type(made).__name__} has an eval() that exchanges the weights, "
            "as schedule-free optimizers do, and BinaryRelax has to know them: give another base"
        )
    return BinaryRelax(made, weights, schedule_over(schedule, trainer.state.max_steps))


def _calling_trainer() -> Trainer:
    """The Trainer that has called: it tells neither factories nor callbacks which one it is.

    Only the Trainer knows its arguments and steps when it builds the optimizer, and how its user
    evaluates.
    """
    frame = inspect.currentframe()
    while frame is not None:
        caller = frame.f_locals.get("self")
        if isinstance(caller, Trainer):
            return caller
        frame = frame.f_back
    raise RuntimeError(
        "relaxed_optimizer and RelaxCallback are for transformers' Trainer to call; "
        "in a loop of your own build BinaryRelax"
    )


def _relaxed(trainer: Trainer) -> BinaryRelax:
    """The Trainer's optimizer, which accelerate has wrapped."""
    optimizer = getattr(trainer.optimizer, "optimizer", trainer.optimizer)
    if not isinstance(optimizer, BinaryRelax):
        raise ValueError(
            f"RelaxCallback: the optimizer is {type(optimizer).__name__}: add "
            "optimizer_cls_and_kwargs=relaxed_optimizer(quantizer=...) to the Trainer"
        )
    return optimizer


def _refuse_unfit(trainer: Trainer) -> None:
    """Raise ValueError if the Trainer does what would undo the relaxation."""
    reasons = {
        "DeepSpeed flattens the parameters and has optimizers of its own: train with DDP": (
            trainer.is_deepspeed_enabled
        ),
        "accelerate shards the model after it has built the optimizer: train with DDP, or call "
        "fully_shard in a loop of your own": trainer.is_fsdp_enabled or trainer.is_fsdp_xla_enabled,
        "auto_find_batch_size changes the number of steps under way: choose a batch size": (
            trainer.args.auto_find_batch_size
        ),
        "λ needs somebody to look after it: add callbacks=[RelaxCallback()] to the Trainer": (
            not any(isinstance(c, RelaxCallback) for c in trainer.callback_handler.callbacks)
        ),
        "the number of steps is not known yet: call Trainer.train(), which builds the optimizer": (
            trainer.state.max_steps < 1
        ),
    }
    for reason, applies in reasons.items():
        if applies:
            raise ValueError(f"relaxed_optimizer: {reason}")


def _head_layers(model: nn.Module) -> Iterator[str]:
    """Names of the layers of embedding and head, by what they are."""
    model = unwrapped(model)
    inner = getattr(model, "base_model", model)
    kept = [found for found in _embeddings(model) if isinstance(found, nn.Module)]
    kept += [] if inner is model else [part for part in model.children() if part is not inner]
    layers = {module for part in kept for module in part.modules()}
    for name, module in model.named_modules(remove_duplicate=False):
        if module in layers and isinstance(module, (*LAYERS, Conv1D)):
            yield escape(name)


def _embeddings(model: nn.Module) -> Iterator[object]:
    for method in ("get_input_embeddings", "get_output_embeddings"):
        if hasattr(model, method):
            try:
                yield getattr(model, method)()
            except NotImplementedError:  # a network without
                continue


def _parameter_groups(trainer: Trainer, model: nn.Module) -> Groups:
    """As the Trainer would group them: no weight decay on norms and biases."""
    decayed = set(trainer.get_decay_parameter_names(model))
    groups: Groups = [
        {"params": [], "weight_decay": trainer.args.weight_decay},
        {"params": [], "weight_decay": 0.0},
    ]
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            groups[name not in decayed]["params"].append(parameter)
    return [group for group in groups if group["params"]]


def _default_base(trainer: Trainer, model: nn.Module, groups: Groups) -> Optimizer:
    """The optimizer that the TrainingArguments name."""
    kind, settings = trainer.get_optimizer_cls_and_kwargs(trainer.args, model)
    if is_optimizer_factory(kind) or {"params", "model", "optimizer_dict"} & settings.keys():
        raise ValueError(
            f"relaxed_optimizer: optim={str(trainer.args.optim)!r} chooses parameters by itself: "
            "name another one in TrainingArguments, or give base="
        )
    made: Optimizer = kind(groups, **settings)
    return made


def _evaluate_again(
    trainer: Trainer, dataloader: Any, metrics: dict[str, float]
) -> dict[str, float]:
    """The metrics of the weights that the model holds now, under names of their own."""
    timed = (key for key in metrics if key.endswith("_runtime"))
    prefix = next(timed, "eval_runtime").removesuffix("_runtime")
    output = trainer.evaluation_loop(
        dataloader,
        description="Evaluation of the projected weights",
        prediction_loss_only=True if trainer.compute_metrics is None else None,
        metric_key_prefix=f"{prefix}_projected",
    )
    found: dict[str, float] = output.metrics
    return found
