"""The short table of results says what the runs say, of networks that have runs."""

from pathlib import Path

import pytest
from lab.tests.support.made_up import made_up_result, write_result

from binaryrelax_lab.recipes import cifar10_resnet20
from binaryrelax_lab.report.figures import Evidence
from binaryrelax_lab.report.figures.results_in_short import mean_of_phase_two, results_in_short

ROOT = Path(__file__).parents[4]


@pytest.fixture
def evidence(tmp_path):
    lasts = {"bwn": 87.0, "binary": 88.0, "twn": 90.0, "ternary": 89.0}
    for method, value in lasts.items():
        for seed in range(1 if method == "bwn" else 2):
            result = made_up_result(cifar10_resnet20(method), seed=seed, last=value)
            write_result(tmp_path / "results", result)
    return Evidence(tmp_path)


def test_a_line_for_a_network_with_runs_the_higher_of_two_rivals_bold(evidence):
    head, _, line, _, words = results_in_short(evidence).splitlines()
    assert head.startswith("| last / best (paper) | seeds | BWN | BinaryRelax, 1 bit | TWN |")
    name, seeds, bwn, binary, twn, ternary = line.strip("| ").split(" | ")
    assert (name, seeds) == ("ResNet-20, CIFAR-10", "1 to 2")
    assert bwn.startswith("87.00 / ") and bwn.endswith(" (87.44)")
    assert binary.startswith("**88.00** / ") and binary.endswith(" (87.82)")
    assert twn.startswith("**90.00** / ") and ternary.startswith("89.00 / ")
    assert words.startswith("BinaryRelax beats its baseline in 1 of 2 pairs at the last epoch, ")


def test_mean_of_phase_two_is_over_its_epochs():
    run = Evidence(ROOT).runs_of("cifar10-resnet20-binary")[0]
    epochs = [record.accuracy for record in run.epochs if record.phase == 2]
    assert len(epochs) == 60
    assert mean_of_phase_two(run) == pytest.approx(sum(epochs) / 60)
    assert mean_of_phase_two(run) < run.best
