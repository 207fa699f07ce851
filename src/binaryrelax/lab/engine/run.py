"""One training run, from a recipe to a folder with its evidence."""

import time
from pathlib import Path
from statistics import fmean
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

from binaryrelax.lab.data import ImageSet
from binaryrelax.lab.engine.environment import describe_environment
from binaryrelax.lab.engine.files import (
    FINAL_NAME,
    HISTOGRAMS_NAME,
    RESULT_NAME,
    digest_of,
    read_json,
    write_json,
    write_tensors,
)
from binaryrelax.lab.engine.histograms import WeightHistograms
from binaryrelax.lab.engine.inspection import inspect_layers, size_of_network
from binaryrelax.lab.engine.listener import Listener, Silent
from binaryrelax.lab.engine.trainer import Trainer
from binaryrelax.lab.recipes import Recipe, plain


def train(
    recipe: Recipe,
    data: ImageSet,
    *,
    seed: int,
    folder: Path,
    initial: Path | None = None,
    listener: Listener | None = None,
) -> dict[str, Any]:
    """Trains a network and writes its run folder; returns the content of ``result.json``.

    The result is written last: a folder that has it is complete.

    Args:
        recipe: what to train.
        data: what to train it on.
        seed: all that is random follows from it.
        folder: where the files go; an earlier run in it is replaced.
        initial: the ``final.safetensors`` of the network to start from.
        listener: who hears of the progress.
    """
    listener = listener or Silent()
    started = time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / RESULT_NAME).unlink(missing_ok=True)
    trainer = Trainer(recipe, data, seed=seed, initial=load_file(initial) if initial else None)
    listener.run_started(recipe, trainer.steps_per_epoch)
    epochs, histograms = _train_epochs(trainer, listener)
    write_tensors(folder / FINAL_NAME, trainer.model.state_dict())
    write_json(folder / HISTOGRAMS_NAME, histograms.as_json())
    weights = _describe_weights(folder / FINAL_NAME, trainer)
    result = {
        "recipe": plain(recipe),
        "seed": seed,
        "environment": describe_environment(trainer.device),
        "initial_checkpoint": _describe_checkpoint(initial),
        "seconds": round(time.perf_counter() - started, 3),
        "epochs": epochs,
        "summary": _summary(recipe, epochs, weights),
        "weights": weights,
    }
    write_json(folder / RESULT_NAME, result)
    listener.run_finished(result)
    return result


def is_finished(folder: Path, recipe: Recipe, *, seed: int, initial: Path | None = None) -> bool:
    """Whether `folder` holds a complete run of this recipe, seed and beginning."""
    expected = {
        "recipe": plain(recipe),
        "seed": seed,
        "initial_checkpoint": _describe_checkpoint(initial),
    }
    try:
        read_json(folder / HISTOGRAMS_NAME)
        result = read_json(folder / RESULT_NAME)
        digest = result["weights"]["digest"]
        return expected.items() <= result.items() and digest == digest_of(folder / FINAL_NAME)
    except (OSError, ValueError, LookupError, TypeError):
        return False  # missing, damaged or something else: train it again


def _train_epochs(
    trainer: Trainer, listener: Listener
) -> tuple[list[dict[str, Any]], WeightHistograms]:
    """The records of all epochs, and the histograms of the largest layer."""
    largest = max(trainer.weights, key=Tensor.numel)
    name, quantizer = trainer.weights.names[largest], trainer.weights[largest]
    histograms = WeightHistograms(name, largest, quantizer)
    histograms.take(epoch=None, phase=None, strength=0.0)
    trainer.start()
    epochs = []
    for epoch in range(trainer.recipe.epochs):
        train_loss = trainer.train_epoch(listener.step_finished)
        record = trainer.epoch_record(epoch, train_loss)
        histograms.take(epoch=epoch, phase=trainer.phase, strength=trainer.strength)
        epochs.append(record)
        listener.epoch_finished(record)
    return epochs, histograms


def _describe_checkpoint(path: Path | None) -> dict[str, str] | None:
    """Name and digest of a checkpoint; its folder is named after the recipe that made it."""
    if path is None:
        return None
    return {"name": f"{path.parent.name}/{path.name}", "digest": digest_of(path)}


def _describe_weights(path: Path, trainer: Trainer) -> dict[str, Any]:
    """What the checkpoint holds, read back from the disk."""
    layers = inspect_layers(path, trainer.named_quantizers)
    return {"digest": digest_of(path), "size": size_of_network(path, layers), "layers": layers}


def _summary(
    recipe: Recipe, epochs: list[dict[str, Any]], weights: dict[str, Any]
) -> dict[str, Any]:
    """The figures that tables are made of; `in_q` is None for a float network."""
    accuracies = [record["accuracy"] for record in epochs]
    checks = [layer["in_q"] for layer in weights["layers"]]
    return {
        "last": accuracies[-1],
        "best_phase_two": max(accuracies[recipe.phase_two_epoch :], default=None),
        "mean_last_5": fmean(accuracies[-5:]),
        "in_q": None if recipe.quantizer is None else all(checks),
    }
