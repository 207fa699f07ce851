"""Training runs, from a recipe to a folder with its evidence."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from binaryrelax import BinaryRelax, measure, monitor
from binaryrelax_lab.data import ImageSource
from binaryrelax_lab.engine.environment import describe_environment
from binaryrelax_lab.engine.feasibility import refuse_bad_start
from binaryrelax_lab.engine.histogram_recorder import HistogramRecorder
from binaryrelax_lab.engine.image_task import task_for
from binaryrelax_lab.engine.inspection import inspect_layers, size_of_network
from binaryrelax_lab.engine.job import Job
from binaryrelax_lab.engine.listener import Listener
from binaryrelax_lab.engine.machine import Machine
from binaryrelax_lab.engine.network import load_network, tensors_of
from binaryrelax_lab.engine.run_folder import HoldsOtherRun
from binaryrelax_lab.engine.task import Material, Task
from binaryrelax_lab.engine.trainer import Trainer
from binaryrelax_lab.files import digest_of
from binaryrelax_lab.recipes import Recipe
from binaryrelax_lab.results import Epoch, RecipeFacts, Snapshot, TrainingResult, Weights

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

    Examples:
        >>> from binaryrelax_lab.engine import RunOptions
        >>> import time
        >>> end = time.monotonic() + 3600  # stop with a checkpoint after an hour, go on another day
        >>> options = RunOptions(resume=True, should_stop=lambda: time.monotonic() > end)
        >>> options.resume, options.checkpoint_every, options.should_stop()
        (True, 5, False)
    """

    resume: bool = False
    checkpoint_every: int = 5
    should_stop: Callable[[], bool] = lambda: False


def train(
    job: Job,
    data: ImageSource | Material,
    *,
    machine: Machine | None = None,
    listener: Listener | None = None,
    options: RunOptions | None = None,
) -> TrainingResult | None:
    """Trains a network and writes its run folder; returns the result, on the first process.

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
        HoldsOtherRun: it was to be resumed, and the folder holds another run.
        LostNetwork: ... or this one, finished, without its network.

    Examples:
        >>> from dataclasses import replace
        >>> from pathlib import Path
        >>> from binaryrelax_lab.data import load_dataset
        >>> from binaryrelax_lab.engine import Job, train
        >>> from binaryrelax_lab.recipes import find_recipe
        >>> data = load_dataset("fashion-mnist-12k")
        >>> few = {"train_images": data.train_images[:128], "train_labels": data.train_labels[:128]}
        >>> job = Job(find_recipe("demo-float@2"), seed=0, folder=Path("run"))
        >>> result = train(job, replace(data, **few))
        >>> len(result.epochs), sorted(path.name for path in Path("run").iterdir())
        (2, ['checkpoints', 'final.safetensors', 'histograms.json', 'result.json'])
    """
    machine, listener = machine or Machine(), listener or Listener()
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
        try:
            return _Run(job, listener, options or RunOptions()).carry_out(trainer)
        finally:
            del trainer
            if machine.is_gpu:  # a trainer and its CUDA graph hold each other, and much memory
                gc.collect()


def train_all(
    jobs: list[Job],
    data: ImageSource | Material | None,
    *,
    machine: Machine,
    listener: Listener,
    options: RunOptions,
) -> list[TrainingResult | None]:
    """Trains one network after the other and returns their results.

    With `options.resume`, finished ones are kept. Without, neither results nor checkpoints of
    before can be mistaken for new ones, whenever this ends; they go once the first of the new runs
    can begin.

    Args:
        jobs: in an order that has each network after the one that it starts from.
        data: what to train them on; not needed if all are finished and kept.
        machine: what to train them with.
        listener: who hears of the progress.
        options: those of each run.

    Examples:
        >>> from dataclasses import replace
        >>> from pathlib import Path
        >>> from binaryrelax_lab.data import load_dataset
        >>> from binaryrelax_lab.engine import Listener, Machine, RunOptions, jobs_of, train_all
        >>> from binaryrelax_lab.recipes import find_recipe
        >>> data = load_dataset("fashion-mnist-12k")
        >>> few = {"train_images": data.train_images[:128], "train_labels": data.train_labels[:128]}
        >>> binary = replace(find_recipe("demo-binary@2"), starts_from="demo-float@2")
    >>> recipes = [find_recipe("demo-float@2"), binary]
        >>> jobs = jobs_of(recipes, seed=0, out=Path("runs"))  # the second starts from the first
        >>> tools = {"machine": Machine(), "listener": Listener(), "options": RunOptions()}
        >>> results = train_all(jobs, replace(data, **few), **tools)
        >>> [result.summary.in_q for result in results]
        [None, True]
    """
    if not options.resume:
        machine.ranks.in_turn(lambda: refuse_bad_start(jobs, _needed(data)))
        if machine.ranks.is_first:
            for job in jobs:
                job.run_folder.forget()
    results: list[TrainingResult | None] = []
    with machine.enough_threads(job.recipe.network for job in jobs):
        for job in jobs:
            kept = job.finished_result() if options.resume else None
            if kept is not None and data is not None:
                refuse_other_data(kept, task_for(job.recipe, data), job.folder)
            if kept is not None:
                listener.run_skipped(kept)
            results.append(
                kept
                or train(job, _needed(data), machine=machine, listener=listener, options=options)
            )
    return results


def _needed(data: ImageSource | Material | None) -> ImageSource | Material:
    if data is None:
        raise ValueError("there are networks to train, so data are needed")
    return data


def refuse_other_data(kept: TrainingResult, task: Task, where: Path) -> None:
    """A `HoldsOtherRun` if a finished run was trained on other data than these."""
    told = (kept.split or {}).get("corpus_digest")
    if told is not None and told != task.digest:
        raise HoldsOtherRun(f"{where} holds a finished run of {kept.name} on other data")


class _Run:
    """The epochs of a run, what is recorded about them, and the files."""

    def __init__(self, job: Job, listener: Listener, options: RunOptions) -> None:
        self.job, self.recipe, self.folder = job, job.recipe, job.run_folder
        self.listener, self.options = listener, options
        self.epochs: list[Epoch] = []
        self.seconds_before = 0.0
        self.started = time.perf_counter()

    def carry_out(self, trainer: Trainer) -> TrainingResult | None:
        """Trains from the beginning or the newest checkpoint, and writes the results."""
        ranks = trainer.machine.ranks
        self.identity = self.job.identity(trainer.machine.precision)
        saved = None
        if self.options.resume:
            self.folder.refuse_other(self.identity)
            saved = self.folder.take_checkpoint(self.listener.note)
        if ranks.is_first:
            self.folder.prepare(keep_checkpoints=saved is not None)
        self.recorder = _recorder_of_largest_layer(trainer)
        trainer.start()
        if saved is not None:
            self._restore(trainer, saved)
        if not ranks.all_have(trainer.num_steps):
            raise ValueError(
                f"the processes see different checkpoints in {self.folder.path}; "
                "give a folder on a disk that all of them share"
            )
        self.listener.run_started(self.recipe, trainer.steps_per_epoch, trainer.num_steps)
        if self.recipe.is_relaxed and self.recipe.phase_two_epoch == 0:
            self.listener.note("  too short for a Phase I: λ = ∞ from the first step on")
        while trainer.epoch < self.recipe.epochs:
            self._train_epoch(trainer)
        self.seconds = self._seconds()  # what is measured once, at the end, is no training
        closing, result = trainer.closing(), None
        if ranks.is_first:
            result = self._write_results(trainer, closing)
            self.listener.run_finished(result)
        ranks.wait_for_all()  # the next run may read what the first process writes
        return result

    def _train_epoch(self, trainer: Trainer) -> None:
        with ExitStack() as watching:
            self._watch_last_step(trainer, watching)
            for num_examples in trainer.steps():
                self.listener.step_finished(num_examples)
                if trainer.steps_in_epoch:  # never between an epoch's last step and its record
                    self._stop_if_asked(trainer)
                    self._watch_last_step(trainer, watching)
            record = trainer.epoch_record()
            self._tell_of_layers(trainer, record.epoch)
        self.recorder.take(epoch=record.epoch, phase=trainer.phase, strength=trainer.strength)
        self.epochs.append(record)
        self.listener.epoch_finished(record)
        if trainer.epoch < self.recipe.epochs:
            self._stop_if_asked(trainer)
        if trainer.epoch % self.options.checkpoint_every == 0:
            self._save(trainer)

    def _watch_last_step(self, trainer: Trainer, watching: ExitStack) -> None:
        """Keeps the weights before an epoch's last step, for its α; a CUDA graph would not."""
        is_last = trainer.steps_in_epoch == trainer.steps_per_epoch - 1
        measured = self._measured(trainer)
        if is_last and measured and not trainer.machine.is_gpu:
            watching.enter_context(monitor(measured))

    def _tell_of_layers(self, trainer: Trainer, epoch: int) -> None:
        if measured := self._measured(trainer):
            self.listener.layers_measured(epoch, measure(measured))

    def _measured(self, trainer: Trainer) -> BinaryRelax | None:
        """Whose layers somebody wants to hear about."""
        optimizer = trainer.optimizer if self.listener.wants_layers else None
        return optimizer if isinstance(optimizer, BinaryRelax) else None

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
            **self.identity.to_checkpoint(),
            "data": trainer.task.digest,
            "epochs": [record.to_json() for record in self.epochs],
            "histograms": [snapshot.to_json() for snapshot in self.recorder.snapshots],
            "seconds": self._seconds(),
            "trainer": trainer.state(),
        }
        if trainer.machine.ranks.is_first:
            self.folder.save(trainer.num_steps, content)
        trainer.machine.ranks.wait_for_all()  # torchrun ends all processes as soon as one has ended

    def _restore(self, trainer: Trainer, saved: dict[str, Any]) -> None:
        if saved.get("data") != trainer.task.digest:
            raise ValueError(
                f"{self.folder.path} holds a half-done run on other data; give those that it began "
                "with, or another folder"
            )
        trainer.load_state(saved["trainer"])
        record_type = trainer.task.result_type.EPOCH
        self.epochs = [record_type.from_json(told, i) for i, told in enumerate(saved["epochs"])]
        self.seconds_before = saved["seconds"]
        self.recorder.snapshots = list(map(Snapshot.from_json, saved["histograms"]))

    def _write_results(self, trainer: Trainer, closing: Mapping[str, Any]) -> TrainingResult:
        self.folder.write_network(tensors_of(trainer.model), self.recorder.histograms())
        weights = _describe_weights(self.folder.network, trainer)
        result = trainer.task.result_type(
            recipe=RecipeFacts.from_json(dict(self.identity.recipe)),
            seed=self.job.seed,
            environment=describe_environment(trainer.machine),
            start=self.identity.start,
            split=trainer.task.split(),
            seconds=round(self.seconds, 3),
            epochs=tuple(self.epochs),
            summary=trainer.task.ending(self.epochs, closing, _in_q(self.recipe, weights)),
            weights=weights,
        )
        self.folder.finish(result)
        return result

    def _seconds(self) -> float:
        return self.seconds_before + time.perf_counter() - self.started


def _recorder_of_largest_layer(trainer: Trainer) -> HistogramRecorder:
    """Begins with the weights before training."""
    largest = max(trainer.weights, key=Tensor.numel)
    name, quantizer = trainer.weights.names[largest], trainer.weights[largest]
    recorder = HistogramRecorder(name, largest, quantizer)
    recorder.take(epoch=None, phase=None, strength=0.0)
    return recorder


def _describe_weights(path: Path, trainer: Trainer) -> Weights:
    """What the checkpoint holds, read back from the disk."""
    layers = inspect_layers(path, trainer.named_quantizers)
    return Weights(digest_of(path), size_of_network(path, layers), layers)


def _in_q(recipe: Recipe, weights: Weights) -> bool | None:
    """Whether all quantized weights lie in Q; None for a float network."""
    return None if recipe.quantizer is None else all(layer.in_q for layer in weights.layers)
