"""Figures over seeds: their spread, and whether differences are more than chance."""

import re

import pytest
from lab.tests.support.made_up import made_up_result, write_result

from binaryrelax_lab.recipes import cifar10_resnet20
from binaryrelax_lab.report.epoch_chart import curve_of
from binaryrelax_lab.report.results_page import results_page
from binaryrelax_lab.results import collect_runs
from binaryrelax_lab.results.grids import by_recipe, comparisons, paper_grids
from binaryrelax_lab.results.statistics import best, is_beyond_chance, last, spread_of


def test_differences_are_taken_seed_by_seed(tmp_path):
    for seed, (bwn, binary) in enumerate([(80.0, 80.1), (90.0, 90.2), (85.0, 85.15)]):
        write_result(tmp_path, made_up_result(cifar10_resnet20("bwn"), seed=seed, last=bwn))
        write_result(tmp_path, made_up_result(cifar10_resnet20("binary"), seed=seed, last=binary))
    write_result(tmp_path, made_up_result(cifar10_resnet20("binary"), seed=7, last=50.0))
    [pair] = comparisons(paper_grids(by_recipe(collect_runs(tmp_path).runs)))
    assert pair.gains(last) == pytest.approx([0.1, 0.2, 0.15])
    assert is_beyond_chance(pair.gains(last))  # though both methods spread over ten points


@pytest.fixture
def repeated(tmp_path):
    """One seed: BWN trained once on each of two machines, BinaryRelax on three."""
    trained = {"bwn": (80.0, 80.4), "binary": (81.0, 81.1, 81.2)}
    for method, lasts in trained.items():
        for machine, accuracy in enumerate(lasts):
            result = made_up_result(cifar10_resnet20(method), last=accuracy)
            write_result(tmp_path / f"machine{machine}", result)
    return tmp_path


def test_several_runs_of_one_seed_are_one_difference(repeated):
    runs = collect_runs(repeated).runs
    assert len(runs) == 5
    [pair] = comparisons(paper_grids(by_recipe(runs)))
    assert pair.gains(last) == pytest.approx([81.1 - 80.2])
    assert not is_beyond_chance(pair.gains(last))


def test_several_runs_of_one_seed_have_no_deviation_over_seeds(repeated):
    [pair] = comparisons(paper_grids(by_recipe(collect_runs(repeated).runs)))
    ours = pair.relaxed.spread(last)
    assert (str(ours), ours.count) == ("81.10", 1)
    assert str(pair.baseline.spread(best)) == "80.50"


def test_the_page_counts_seeds_not_runs(repeated):
    page = results_page(collect_runs(repeated))
    assert "With fewer than 3 seeds each, nobody knows how much of it is chance" in page
    assert "last epoch 81.10 %, 1 seed<" in page
    assert "(3 seeds)" not in page
    [row] = re.findall(r"<tr[^>]*><th[^>]*>seeds</th>.*?</tr>", page)
    assert re.findall(r"\d+", re.sub(r"<[^>]+>", " ", row)) == ["0", "1", "1", "0", "0"]


def test_a_curve_is_the_mean_over_seeds(repeated):
    write_result(repeated, made_up_result(cifar10_resnet20("binary"), seed=1, last=85.1))
    runs = by_recipe(collect_runs(repeated).runs)["cifar10-resnet20-binary"]
    curve = curve_of(runs)
    assert (curve.num_seeds, curve.values[-1]) == (2, 83.1)
    assert (curve.low[-1], curve.high[-1]) == (81.1, 85.1)


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
