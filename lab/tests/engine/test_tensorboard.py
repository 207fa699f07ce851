"""TensorBoard logs, read back by TensorBoard's own reader.

The reader sorts the files of a run by the second they were begun in: the tests wait for the next.
"""

import math
import time

import pytest
from lab.tests.support.tiny import tiny_data, tiny_recipe
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from binaryrelax_lab.engine import Job, Listener, RunOptions, RunStopped, Several, train
from binaryrelax_lab.engine.tensorboard import FOLDER_NAME, LAYER_CURVES, TensorBoardLog


def curves(folder):
    """The points of every curve of a run, by its name."""
    reader = EventAccumulator(str(folder))
    reader.Reload()
    names = reader.Tags()["scalars"]
    return {name: [(e.step, e.value) for e in reader.Scalars(name)] for name in names}


def expected(result, name):
    """The points that a curve should have: float32, and infinity cannot be drawn."""
    values = [(record.epoch, getattr(record, name)) for record in result.epochs]
    finite = [(epoch, value) for epoch, value in values if value not in (None, math.inf)]
    return [(epoch, pytest.approx(value, rel=1e-6)) for epoch, value in finite]


def assert_complete(folder, result):
    shown = curves(folder)
    names = {"train_loss", "lr", "strength", "phase", "accuracy", "accuracy_projected"}
    of_network = {name: points for name, points in shown.items() if "/" not in name}
    assert set(of_network) == {name for name in names if expected(result, name)}
    for name, points in of_network.items():
        assert points == expected(result, name), name


@pytest.mark.parametrize("method", ["float", "bwn", "binary"])
def test_log_holds_every_number_of_the_result(method, tmp_path):
    job = Job(tiny_recipe(method), 0, tmp_path)
    result = train(job, tiny_data(), listener=TensorBoardLog(tmp_path))
    assert_complete(tmp_path / FOLDER_NAME / f"tiny-{method}", result)


class Remembering(Listener):
    """Keeps what is told of the layers."""

    wants_layers = True

    def __init__(self):
        self.told = []

    def layers_measured(self, epoch, layers):
        self.told += [(epoch, layer) for layer in layers]


def test_log_has_a_curve_for_each_quantity_and_layer(tmp_path):
    job, heard = Job(tiny_recipe("binary"), 0, tmp_path), Remembering()
    result = train(job, tiny_data(), listener=Several(TensorBoardLog(tmp_path), heard))
    shown = curves(tmp_path / FOLDER_NAME / "tiny-binary")
    layers = [layer.name for layer in result.weights.layers]
    assert len(layers) >= 4 and len(heard.told) == len(layers) * len(result.epochs)
    for name in LAYER_CURVES:
        for layer in layers:
            told = [(e, getattr(r, name)) for e, r in heard.told if r.name == layer]
            points = [(e, pytest.approx(value, rel=1e-6)) for e, value in told if value is not None]
            assert shown[f"{name}/{layer}"] == points
            assert len(points) >= len(result.epochs) - 1  # nothing flips before the first call
    assert all(value == 0 for _, value in shown[f"distance/{layers[0]}"][-1:])


def test_log_of_a_float_run_has_no_layers(tmp_path):
    train(Job(tiny_recipe("float"), 0, tmp_path), tiny_data(), listener=TensorBoardLog(tmp_path))
    assert not [name for name in curves(tmp_path / FOLDER_NAME / "tiny-float") if "/" in name]


def test_watching_layers_changes_no_bit_of_the_training(tmp_path):
    results = []
    for name, listener in (("plain", Listener()), ("watched", Remembering())):
        job = Job(tiny_recipe("binary"), 0, tmp_path / name)
        results.append(train(job, tiny_data(), listener=listener).weights.digest)
    assert results[0] == results[1]


class Failing(Listener):
    """Ends a run as a power cut would: without a checkpoint, after the epoch has been logged."""

    def epoch_finished(self, record):
        if record.epoch == 2:
            raise ConnectionError


class Counting(Listener):
    """Counts the steps, of which two make an epoch."""

    done = 0

    def step_finished(self, num_images):
        self.done += 1


def test_log_of_a_run_that_was_cut_off_and_resumed_has_each_epoch_once(tmp_path):
    job = Job(tiny_recipe("binary"), 0, tmp_path)
    options = RunOptions(resume=True, checkpoint_every=2)
    with pytest.raises(ConnectionError):
        listener = Several(TensorBoardLog(tmp_path), Failing())
        train(job, tiny_data(), listener=listener, options=options)
    folder = tmp_path / FOLDER_NAME / "tiny-binary"
    assert len(curves(folder)["accuracy"]) == 3
    time.sleep(1)
    result = train(job, tiny_data(), listener=TensorBoardLog(tmp_path), options=options)
    assert_complete(folder, result)


def test_log_of_a_run_that_was_stopped_within_an_epoch_goes_on(tmp_path):
    job = Job(tiny_recipe("binary"), 0, tmp_path)
    steps = Counting()
    stopping = RunOptions(resume=True, should_stop=lambda: steps.done == 5)
    with pytest.raises(RunStopped):
        listener = Several(TensorBoardLog(tmp_path), steps)
        train(job, tiny_data(), listener=listener, options=stopping)
    folder = tmp_path / FOLDER_NAME / "tiny-binary"
    assert len(curves(folder)["accuracy"]) == 2
    going_on = RunOptions(resume=True)
    time.sleep(1)
    result = train(job, tiny_data(), listener=TensorBoardLog(tmp_path), options=going_on)
    assert_complete(folder, result)


def test_log_of_a_run_that_begins_anew_forgets_the_old_one(tmp_path):
    folder = tmp_path / FOLDER_NAME / "tiny-float"
    long = Job(tiny_recipe("float", epochs=4), 0, tmp_path)
    train(long, tiny_data(), listener=TensorBoardLog(tmp_path))
    short = Job(tiny_recipe("float", epochs=2), 1, tmp_path)
    result = train(short, tiny_data(), listener=TensorBoardLog(tmp_path))
    assert_complete(folder, result)
