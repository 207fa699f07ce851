"""One training run, from a recipe to a folder with its evidence."""

import time
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from binaryrelax import BinaryRelax, measure, monitor
from binaryrelax.lab.data import ImageSource
from binaryrelax.lab.engine.checkpoint import FOLDER_NAME, forget_checkpoints, save_checkpoint
from binaryrelax.lab.engine.environment import describe_environment
from binaryrelax.lab.engine.files import (
    FINAL_NAME,
    HISTOGRAMS_NAME,
    RESULT_NAME,
    digest_of,
    remove_unfinished,
    write_json,
    write_tensors,
)
from binaryrelax.lab.engine.histograms import WeightHistograms
from binaryrelax.lab.engine.inspection import inspect_layers, size_of_network
from binaryrelax.lab.engine.job import Job
from binaryrelax.lab.engine.listener import Listener
from binaryrelax.lab.engine.machine import Machine
from binaryrelax.lab.engine.network import load_network
from binaryrelax.lab.engine.resuming import load_saved
from binaryrelax.lab.engine.trainer import Trainer
from binaryrelax.lab.recipes import Recipe
from binaryrelax.packed.manifest import digest_of_tensors

STEPS_BETWEEN_AGREEMENTS = 16  # GPUs ask each other whether to stop, which makes them wait


class RunStopped(Exception):
    """A run was asked to stop; what it had done is in a checkpoint."""

    def __init__(self, recipe: Recipe, epochs_done: float) -> None:
        super().__init__(f"{recipe.name} stopped after {epochs_done:.2f} of {recipe.epochs} epochs")


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How a run is carried out; none of it changes the result.

    Args:
        resume: go on from the newest checkpoint in the folder, if there is one.
        checkpoint_every: epochs between checkpoints.
        should_stop: asked after each step; True ends the run with a checkpoint.
    """

    resume: bool = False
    checkpoint_every: int = 5
    should_stop: Callable[[], bool] = lambda: False


def train(
    job: Job,
    data: ImageSource,
    *,
    machine: Machine | None = None,
    listener: Listener | None = None,
    options: RunOptions | None = None,
) -> dict[str, Any]:
    """Trains a network and writes its run folder; returns the content of ``result.json``.

    The result is written last: a folder that has it is complete. An earlier run in the folder is
    replaced, unless it is resumed.

    Args:
        job: what to train.
        data: what to train it on.
        machine: what to train it with; a CPU if not given.
        listener: who hears of the progress.
        options: checkpoints, resuming, stopping.

    Raises:
        RunStopped: `options.should_stop` said so.
        ValueError: it was to be resumed, and the folder holds another run.
    """
    machine, listener = machine or Machine(), listener or Listener()
    data = data.holding_out(job.recipe.held_out) if job.recipe.held_out else data
    own_stream = torch.cuda.stream(torch.cuda.Stream()) if machine.is_gpu else nullcontext()
    with machine.settings(), own_stream:
        trainer = Trainer(
            job.recipe,
            data,
            seed=job.seed,
            machine=machine,
            initial=load_network(job.initial, job.recipe) if job.initial else None,
            note=listener.note,
        )
        return _Run(job, listener, options or RunOptions()).carry_out(trainer)


class _Run:
    """The epochs of a run, what is recorded about them, and the files."""

    def __init__(self, job: Job, listener: Listener, options: RunOptions) -> None:
        self.job, self.recipe, self.folder = job, job.recipe, job.folder
        self.identity = job.identity
        self.listener, self.options = listener, options
        self.epochs: list[dict[str, Any]] = []
        self.seconds_before = 0.0
        self.started = time.perf_counter()

    def carry_out(self, trainer: Trainer) -> dict[str, Any]:
        """Trains from the beginning or the newest checkpoint, and writes the results."""
        ranks = trainer.machine.ranks
        saved = None
        if self.options.resume:
            saved = load_saved(self.job, trainer.machine.precision, self.listener.note)
        if ranks.is_first:
            self._prepare_folder(keep_checkpoints=saved is not None)
        self.histograms = _histograms_of_largest_layer(trainer)
        trainer.start()
        if saved is not None:
            self._restore(trainer, saved)
        if not ranks.all_have(trainer.num_steps):
            raise ValueError(
                f"the processes see different checkpoints in {self.folder}; "
                "give an --out on a disk that all of them share"
            )
        self.listener.run_started(self.recipe, trainer.steps_per_epoch, trainer.num_steps)
        if self.recipe.is_relaxed and self.recipe.phase_two_epoch == 0:
            self.listener.note("  too short for a Phase I: λ = ∞ from the first step on")
        while trainer.epoch < self.recipe.epochs:
            self._train_epoch(trainer)
        recalibrated, result = trainer.accuracy_recalibrated(), {}
        if ranks.is_first:
            result = self._write_results(trainer, recalibrated)
            self.listener.run_finished(result)
        ranks.wait_for_all()  # the next run may read what the first process writes
        return result

    def _train_epoch(self, trainer: Trainer) -> None:
        with ExitStack() as watching:
            self._watch_last_step(trainer, watching)
            for num_images in trainer.steps():
                self.listener.step_finished(num_images)
                if trainer.steps_in_epoch:  # never between an epoch's last step and its record
                    self._stop_if_asked(trainer)
                    self._watch_last_step(trainer, watching)
            record = trainer.epoch_record()
            self._tell_of_layers(trainer, record["epoch"])
        self.histograms.take(epoch=record["epoch"], phase=trainer.phase, strength=trainer.strength)
        self.epochs.append(record)
        self.listener.epoch_finished(record)
        if trainer.epoch < self.recipe.epochs:
            self._stop_if_asked(trainer)
        if trainer.epoch % self.options.checkpoint_every == 0:
            self._save(trainer)

    def _watch_last_step(self, trainer: Trainer, watching: ExitStack) -> None:
        """Keeps the weights before an epoch's last step, for its α; a CUDA graph would not."""
        is_last = trainer.steps_in_epoch == trainer.steps_per_epoch - 1
        if is_last and self._measures(trainer) and not trainer.machine.is_gpu:
            watching.enter_context(monitor(trainer.optimizer))

    def _tell_of_layers(self, trainer: Trainer, epoch: int) -> None:
        if self._measures(trainer):
            self.listener.layers_measured(epoch, measure(trainer.optimizer))

    def _measures(self, trainer: Trainer) -> bool:
        return self.listener.wants_layers and isinstance(trainer.optimizer, BinaryRelax)

    def _stop_if_asked(self, trainer: Trainer) -> None:
        """Processes stop together: one that stopped alone would leave the others waiting."""
        machine = trainer.machine
        rarely = machine.is_gpu and machine.ranks.is_group
        if rarely and trainer.steps_in_epoch % STEPS_BETWEEN_AGREEMENTS:
            return
        if machine.ranks.any_wishes(self.options.should_stop()):
            self._save(trainer)
            raise RunStopped(self.recipe, trainer.num_steps / trainer.steps_per_epoch)

    def _save(self, trainer: Trainer) -> None:
        content = {
            **self.identity,
            "precision": trainer.machine.precision,
            "epochs": self.epochs,
            "histograms": self.histograms.snapshots,
            "seconds": self._seconds(),
            "trainer": trainer.state(),
        }
        if trainer.machine.ranks.is_first:
            save_checkpoint(self.folder, trainer.num_steps, content)
        trainer.machine.ranks.wait_for_all()  # torchrun ends all processes as soon as one has ended

    def _restore(self, trainer: Trainer, saved: dict[str, Any]) -> None:
        trainer.load_state(saved["trainer"])
        self.epochs, self.seconds_before = saved["epochs"], saved["seconds"]
        self.histograms.snapshots = saved["histograms"]

    def _prepare_folder(self, *, keep_checkpoints: bool) -> None:
        (self.folder / FOLDER_NAME).mkdir(parents=True, exist_ok=True)
        remove_unfinished(self.folder)
        (self.folder / RESULT_NAME).unlink(missing_ok=True)
        if not keep_checkpoints:
            forget_checkpoints(self.folder)

    def _write_results(self, trainer: Trainer, recalibrated: float) -> dict[str, Any]:
        write_tensors(self.folder / FINAL_NAME, trainer.model.state_dict())
        write_json(self.folder / HISTOGRAMS_NAME, self.histograms.as_json())
        weights = _describe_weights(self.folder / FINAL_NAME, trainer)
        result = {
            "recipe": self.identity["recipe"],
            "seed": self.identity["seed"],
            "environment": describe_environment(trainer.machine),
            "initial_checkpoint": self.identity["initial_checkpoint"],
            **_split(self.recipe, trainer),
            "seconds": round(self._seconds(), 3),
            "epochs": self.epochs,
            "summary": {
                **_summary(self.recipe, self.epochs),
                "last_recalibrated": recalibrated,
                "in_q": _is_in_q(self.recipe, weights),
            },
            "weights": weights,
        }
        write_json(self.folder / RESULT_NAME, result)
        forget_checkpoints(self.folder)
        return result

    def _seconds(self) -> float:
        return self.seconds_before + time.perf_counter() - self.started


def _histograms_of_largest_layer(trainer: Trainer) -> WeightHistograms:
    """Begins with the weights before training."""
    largest = max(trainer.weights, key=Tensor.numel)
    name, quantizer = trainer.weights.names[largest], trainer.weights[largest]
    histograms = WeightHistograms(name, largest, quantizer)
    histograms.take(epoch=None, phase=None, strength=0.0)
    return histograms


def _describe_weights(path: Path, trainer: Trainer) -> dict[str, Any]:
    """What the checkpoint holds, read back from the disk."""
    layers = inspect_layers(path, trainer.named_quantizers)
    return {"digest": digest_of(path), "size": size_of_network(path, layers), "layers": layers}


def _split(recipe: Recipe, trainer: Trainer) -> dict[str, Any]:
    """What was trained on and what accuracies mean, where that is not the whole set."""
    if not recipe.held_out:
        return {}
    data = trainer.data  # an image set: no other source can hold images out
    digest = digest_of_tensors(data.test_images, data.test_labels)
    sizes = {"trained_on": data.num_train, "held_out": data.num_test}
    return {"split": {**sizes, "held_out_digest": digest}}


def _summary(recipe: Recipe, epochs: list[dict[str, Any]]) -> dict[str, Any]:
    """The figures that tables are made of."""
    accuracies = [record["accuracy"] for record in epochs]
    top5 = [record["accuracy_top5"] for record in epochs if "accuracy_top5" in record]
    return {
        "last": accuracies[-1],
        "best_phase_two": max(accuracies[recipe.phase_two_epoch :], default=None),
        "mean_last_5": fmean(accuracies[-5:]),
        **({"last_top5": top5[-1]} if top5 else {}),
    }


def _is_in_q(recipe: Recipe, weights: dict[str, Any]) -> bool | None:
    """Whether every layer is; None for a float network."""
    checks = [layer["in_q"] for layer in weights["layers"]]
    return None if recipe.quantizer is None else all(checks)
