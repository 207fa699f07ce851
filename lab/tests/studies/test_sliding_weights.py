"""The study that follows weights into Q, on a handful of images."""

import pytest
from lab.tests.support.tiny import tiny_data, tiny_recipe

from binaryrelax_lab.studies import sliding_weights as study
from binaryrelax_lab.studies.quantized_training import started


@pytest.fixture(scope="module")
def record():
    initial = started(tiny_recipe("float"), tiny_data()).model.state_dict()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "STEPS_BETWEEN_LOOKS", 1)
        return study.sliding_weights(tiny_recipe("ternary"), tiny_data(), initial)


def numbers(text):
    return [int(number) for number in text.split()]


def test_the_first_moment_is_the_float_network(record):
    first = record["moments"][0]
    assert (first["step"], first["strength"], first["phase"]) == (0, 0.0, 1)
    assert first["x"] == first["y"] and first["relative_distance"] > 0.1


def test_the_last_moment_lies_in_q(record):
    last = record["moments"][-1]
    assert last["strength"] == "inf" and last["phase"] == 2
    assert numbers(last["x"]) == [study.UNITS * code for code in numbers(last["codes"])]
    assert last["relative_distance"] < 1e-6
    assert sum(count > 0 for count in numbers(last["counts_of_x"])) == len(record["codebook"])


def test_x_lies_between_y_and_its_projection(record):
    for moment in record["moments"]:
        followed = (numbers(moment[name]) for name in ("y", "x", "codes"))
        for y, x, code in zip(*followed, strict=True):
            low, high = sorted((y, study.UNITS * code))
            assert low - 1 <= x <= high + 1


def test_an_accuracy_stands_for_each_epoch(record):
    assert len(record["accuracies"]) == tiny_recipe("ternary").epochs
