"""Figures over seeds: their spread, and whether differences are more than chance."""

import pytest

from binaryrelax.lab.recipes import cifar10_resnet20
from binaryrelax.lab.report.collection import collect_runs
from binaryrelax.lab.report.grids import by_recipe, comparisons, paper_grids
from binaryrelax.lab.report.spread import is_beyond_chance, spread_of
from tests.lab.made_up import made_up_result, write_result


def test_differences_are_taken_seed_by_seed(tmp_path):
    for seed, (bwn, binary) in enumerate([(80.0, 80.1), (90.0, 90.2), (85.0, 85.15)]):
        write_result(tmp_path, made_up_result(cifar10_resnet20("bwn"), seed=seed, last=bwn))
        write_result(tmp_path, made_up_result(cifar10_resnet20("binary"), seed=seed, last=binary))
    write_result(tmp_path, made_up_result(cifar10_resnet20("binary"), seed=7, last=50.0))
    [pair] = comparisons(paper_grids(by_recipe(collect_runs(tmp_path).runs)))
    assert pair.gains == pytest.approx([0.1, 0.2, 0.15])
    assert is_beyond_chance(pair.gains)  # though both methods spread over ten points


@pytest.mark.parametrize(
    ("values", "beyond"),
    [
        ([1.0], False),
        ([0.65, 0.65], False),
        ([1.0, 1.1, 1.2], True),
        ([0.1, 1.1, 2.2], False),
        ([-1.0, -1.1, -1.2], True),
        ([1.0, -1.0, 1.0, -1.0], False),
        ([0.1 + 0.01 * n for n in range(12)], True),
    ],
)
def test_chance_is_judged_by_students_t(values, beyond):
    assert is_beyond_chance(values) is beyond


def test_spread_of_one_value_has_no_deviation():
    assert str(spread_of([90.0])) == "90.00"
    assert str(spread_of([90.0, 91.0, None])) == "90.50 ± 0.71"
    assert spread_of([None]) is None
