"""Gains of BinaryRelax: by which figure, beyond which chance, and what of it is λ."""

from pathlib import Path

import pytest

from binaryrelax_lab.recipes import find_recipe, plain
from binaryrelax_lab.report.figures import Evidence
from binaryrelax_lab.report.figures.comparisons import gains_by_sign, start_apart, tuned_rivals
from binaryrelax_lab.report.figures.last_epochs import recovered
from binaryrelax_lab.report.figures.markdown import chance_text, table_of_gains
from binaryrelax_lab.report.figures.network_sizes import rank_correlation, shuffled_chance
from binaryrelax_lab.report.figures.phase_one_decay import decay, share_of_strength
from binaryrelax_lab.report.figures.schedules import BITS
from binaryrelax_lab.report.figures.tuned_gains import STRENGTHS, tuned_lead, verdict
from binaryrelax_lab.results.statistics import (
    best,
    chance_of,
    last,
    mean_of_phase_two,
    sign_chance,
    survivors,
)

EVIDENCE = Evidence(Path(__file__).parents[4])


@pytest.mark.parametrize(
    ("network", "by_best", "by_mean"),
    [("resnet20", 1.20, 0.72), ("resnet32", 2.11, 0.95), ("vgg16", 0.02, -0.24)],
)
def test_the_best_epoch_favours_the_method_that_swings(network, by_best, by_mean):
    pair = f"cifar10-{network}-binary", f"cifar10-{network}-bwn"
    gains = [EVIDENCE.mean_gains([pair], figure)[0] for figure in (best, mean_of_phase_two)]
    assert gains == pytest.approx([by_best, by_mean], abs=0.005)


def test_many_tests_are_corrected_together():
    assert survivors([]) == []
    assert survivors([0.04]) == [True]
    assert survivors([0.04, 0.04]) == [False, False]
    assert survivors([0.03, 0.01, 0.2]) == [False, True, False]  # 0.05/3, then 0.05/2
    assert survivors([0.02, 0.01, 0.2]) == [True, True, False]


def test_chance_needs_three_seeds_and_counts_both_sides():
    assert chance_of([1.0, 2.0]) is None
    assert chance_of([1.0, 2.0, 3.0]) == pytest.approx(0.0742, abs=1e-4)
    assert chance_of([-1.0, -2.0, -3.0]) == chance_of([1.0, 2.0, 3.0])
    assert chance_of([1.0, 1.0, 1.0]) == 0 and chance_of([0.0, 0.0, 0.0]) == 1


def test_signs_are_coins():
    assert sign_chance(10, 10) == sign_chance(0, 10) == pytest.approx(2 / 1024)
    assert sign_chance(5, 10) == 1.0
    assert sign_chance(7, 10) == pytest.approx(0.34375)


def test_a_table_of_gains_says_how_many_tests_it_holds():
    shown = table_of_gains(("", "a", "b"), [("x", [1.0, 1.01, 1.02], [1.0, 1.3, 1.6])])
    assert "**+1.01 ± 0.01** (3 of 3) | **+1.30 ± 0.30** (3 of 3)" in shown
    assert "2 tests with three seeds or more. p < 0.05 alone: 2." in shown
    alone = table_of_gains(("", "a"), [("x", [1.0])])
    assert "| x | +1.00 |" in alone and "each may be luck" in alone


def test_wins_are_counted_by_comparison_and_by_network():
    lines = gains_by_sign(EVIDENCE).splitlines()
    assert lines[0].startswith("| figure | comparisons won | p | least gain | networks won")
    assert len(lines) == 7
    assert lines[-1].startswith("| best of all epochs, projected |")


def test_chances_are_shown_with_three_digits():
    assert [chance_text(p) for p in (1.0, 0.0213, 0.001, 0.0009)] == [
        "1.000", "0.021", "0.001", "< 0.001",
    ]  # fmt: skip


def test_runs_that_do_not_start_alike_are_marked():
    name = "cifar10-resnet20-{}-tuned"
    assert start_apart(EVIDENCE, (name.format("binary"), name.format("bwn")))
    assert not start_apart(EVIDENCE, ("cifar10-resnet20-binary", "cifar10-resnet20-bwn"))
    assert not start_apart(EVIDENCE, ("demo-binary", "demo-binary+starts_from=none"))


def test_the_lead_of_the_tuned_recipe_is_asked_of_runs_that_start_alike():
    for bits in BITS:
        for strength in STRENGTHS:
            ours, theirs = tuned_rivals(bits, strength)
            assert not start_apart(EVIDENCE, (ours, theirs))
            assert len(EVIDENCE.differences((ours, theirs), last)) == 3
            changed = {"method", "initial_strength", "growth", "growth_every_epochs"}
            soft, hard = plain(find_recipe(ours)), plain(find_recipe(theirs))
            assert {key for key in soft if soft[key] != hard[key]} == changed | {"name"}


def test_one_seed_behind_makes_it_another_lead():
    assert verdict([0.1, 2.0, 0.01]) == "owes its lead to BinaryRelax"
    assert "does not owe" in verdict([0.1, 2.0, -0.01])


def test_the_lead_of_the_tuned_recipe_is_told_with_its_seeds():
    told = tuned_lead(EVIDENCE)
    assert told.startswith("owes its lead to BinaryRelax: at the last epoch +1.74 ± 0.71 over BWN")
    assert "over 3 seeds from the same float networks. Of 12 pairs of runs" in told


def test_fresh_statistics_recover_part_of_the_way_to_the_best():
    shown = recovered(EVIDENCE)
    assert "+2.06 of +3.35 (1 seed)" in shown and "+0.14 of +0.69 (1 seed)" in shown


def test_vgg16_decays_without_a_growing_strength_too():
    """Of the decay of VGG-16 between the drops, about half is λ at 1 bit; float decays as well."""
    runs = {m: EVIDENCE.runs_of(f"cifar10-vgg16-{m}")[0] for m in ("float", "bwn", "binary")}
    lost = {method: decay(run) for method, run in runs.items()}
    assert 0 < lost["float"] < lost["bwn"] < lost["binary"]
    assert share_of_strength([lost["bwn"]], [lost["binary"]]) == "+1.46 (51 %)"
    assert share_of_strength([1.0], [-1.0]) == share_of_strength([], [1.0]) == "-"


def test_decay_needs_two_drops():
    with pytest.raises(ValueError, match="drops of the learning rate, not 2"):
        decay(EVIDENCE.runs_of("cifar10-resnet20-binary-plus")[0])


def test_ranks_correlate():
    assert rank_correlation([1, 20, 300], [0.1, 0.2, 0.3]) == pytest.approx(1)
    assert rank_correlation([1, 20, 300], [0.3, 0.2, 0.1]) == pytest.approx(-1)
    tied = [87.82 - 87.44, 0.9, 91.98 - 91.60]  # the outer two are the same figure of the paper
    assert rank_correlation([1, 20, 300], tied) == pytest.approx(0)


def test_few_networks_correlate_by_chance():
    assert shuffled_chance([1, 2, 3], [0.1, 0.2, 0.3]) == pytest.approx(2 / 6)
    assert shuffled_chance([1, 2, 3, 4, 5], [5, 4, 3, 2, 1]) == pytest.approx(2 / 120)
