"""The checklist of the paper: statuses follow their rules, and every claim names what says so."""

import json
import re
from pathlib import Path

import pytest
from lab.tests.support.made_up import made_up_result, write_result

from binaryrelax_lab.recipes import TABLES, find_recipe
from binaryrelax_lab.report.figures import (
    Evidence,
    paper_cells,
    paper_claims,
    paper_sizes,
    paper_verdicts,
)
from binaryrelax_lab.report.figures.paper_cells import ABOVE, BELOW, NOT_RUN, REPRODUCED
from binaryrelax_lab.report.figures.paper_gains import (
    FIGURES,
    Gain,
    Lead,
    all_gains,
    not_run_yet,
    num_gains_of_the_paper,
)
from binaryrelax_lab.report.figures.paper_verdicts import (
    CONFIRMED,
    CONTRADICTED,
    NOT_TESTABLE,
    STATUSES,
    UNDECIDED,
    Verdict,
    verdict_of_leads,
)
from binaryrelax_lab.report.figures.tuning import scaled
from binaryrelax_lab.results.statistics import best, last

ROOT = Path(__file__).parents[4]
PAGE = ROOT / "docs" / "evidence" / "checklist.md"
MILLIONS = {"resnet20": 0.3, "resnet32": 0.5, "vgg11": 9.2, "resnet18": 11.2}
CLAIMS = [claim for group in paper_claims.GROUPS.values() for claim in group]


@pytest.fixture
def evidence(tmp_path):
    """What is asked of runs, with no run yet but what a test writes."""
    for folder in ("findings", "theory"):
        (tmp_path / "results").mkdir(exist_ok=True)
        (tmp_path / "results" / folder).symlink_to(ROOT / "results" / folder)
    return Evidence(tmp_path)


def train(evidence, name, accuracy, **more):
    """A run of the recipe that ends at `accuracy`; its best epoch is 0.3 points higher."""
    result = made_up_result(find_recipe(name), last=accuracy, **more)
    for layer in result["weights"]["layers"]:
        layer["num_weights"] = int(1e6 * MILLIONS.get(name.split("-")[1], 15))
    write_result(evidence.root / "results", result)


def lead(*values, dataset="cifar10"):
    return Lead(dataset, dict(zip(FIGURES, values, strict=True)))


def test_a_cell_is_reproduced_within_the_tolerance_of_its_dataset(evidence):
    train(evidence, "cifar10-vgg11-float", 91.93 + 0.3)
    train(evidence, "cifar10-vgg11-bwn", 88.70 - 0.31)
    train(evidence, "cifar100-vgg11-float", 70.43 - 0.8)
    by_name = {cell.words: cell for cell in paper_cells.paper_cells(evidence, "cifar10")}
    float_cell, bwn = by_name["VGG-11", "Float"], by_name["VGG-11", "BWN"]
    assert (float_cell.status(last), float_cell.status(best)) == (REPRODUCED, ABOVE)
    assert (bwn.status(last), bwn.status(best)) == (BELOW, REPRODUCED)
    assert by_name["ResNet-34", "TWN"].status(best) == NOT_RUN
    wider = next(paper_cells.paper_cells(evidence, "cifar100"))
    assert (wider.status(last), wider.status(best)) == (BELOW, REPRODUCED)
    assert wider.row[2:] == (
        "70.43", "69.93", "−0.50", "69.63", "−0.80", "1", REPRODUCED, BELOW,
    )  # fmt: skip


def test_every_cell_of_the_tables_has_a_row(evidence):
    train(evidence, "imagenet-resnet18-float", 69.6)
    for dataset, count in (("cifar10", 30), ("cifar100", 30), ("imagenet", 10)):
        assert len(list(paper_cells.paper_cells(evidence, dataset))) == count
        assert len(paper_cells.cells(evidence, dataset).splitlines()) == count + 2
    top5 = list(paper_cells.paper_cells(evidence, "imagenet"))[1]
    assert top5.words[1].endswith("top-5") and top5.paper == 89.0
    assert top5.last(top5.runs[0]) == pytest.approx(76.6)
    rows = paper_cells.tally(evidence).splitlines()[2:]
    assert [row.split(" | ")[2] for row in rows] == ["30", "30", "10"]
    assert [row.removesuffix(" |").split(" | ")[-1] for row in rows] == ["30", "30", "8"]


def test_ahead_everywhere_by_each_figure_is_confirmed():
    assert verdict_of_leads([]).status == NOT_RUN
    assert verdict_of_leads([lead(1, 1, 1), lead(0.1, 0.2, 0.01)]).status == CONFIRMED
    mixed = verdict_of_leads([lead(1, 1, 1), lead(-2, 0.5, -1)], " More.")
    counts = "by the last epoch 1 of 2, by the best of Phase II 2 of 2, by the mean of Phase II"
    seeds = "0 of 2 with 3 seeds or more."
    assert mixed == Verdict(UNDECIDED, f"Ahead {counts} 1 of 2. {seeds} More.")
    assert verdict_of_leads([lead(1, 1, 1), lead(-0.2, -0.2, -0.2)]).status == UNDECIDED
    assert verdict_of_leads([lead(1, 1, 1), lead(-0.4, -0.4, -0.4)]).status == CONTRADICTED
    within = lead(-0.4, -0.4, -0.4, dataset="cifar100")
    assert verdict_of_leads([within]).status == UNDECIDED


def test_gains_are_those_of_pairs_that_were_run(evidence):
    assert num_gains_of_the_paper() == 26
    train(evidence, "cifar10-resnet18-binary", 94.0)
    train(evidence, "cifar10-resnet18-bwn", 93.0, seed=1)
    assert all_gains(evidence) == []


def train_gains(evidence, **gains):
    """A pair at 1 bit for each network of Table 1, with these gains."""
    for network, gain in gains.items():
        train(evidence, f"cifar10-{network}-bwn", 90.0)
        train(evidence, f"cifar10-{network}-binary", 90.0 + gain)


def test_gains_of_larger_networks_are_compared_within_a_table(evidence):
    train_gains(evidence, resnet20=0.0, resnet18=1.0)
    train(evidence, "cifar100-vgg16-bwn", 60.0)
    train(evidence, "cifar100-vgg16-binary", 70.0)
    for rule in ("larger_gain_on_larger_networks", "larger_gain_on_wide_networks"):
        found = getattr(paper_sizes, rule)(evidence)
        assert "1 of 1" in found.why
        assert found.status == UNDECIDED  # two networks are in order by luck every other time


@pytest.mark.parametrize(
    ("gains", "status"),
    [((0.1, 0.2, 0.3, 0.4), CONFIRMED), ((0.4, 0.3, 0.2, 0.1), CONTRADICTED),
     ((0.4, 0.3, 0.1, 0.2), UNDECIDED)],
    ids=["larger", "smaller", "mixed"],
)  # fmt: skip
def test_an_order_of_networks_counts_if_shuffled_ones_seldom_have_it(evidence, gains, status):
    train_gains(evidence, **dict(zip(MILLIONS, gains, strict=True)))
    found = paper_sizes.larger_gain_on_larger_networks(evidence)
    assert found.status == status
    assert "Networks: 0 of 4 with 3 seeds or more." in found.why


def test_shuffled_networks_keep_their_widths_together():
    def gain(network, bits, value):
        return Gain("cifar10", network, bits, 1, 0.0, dict.fromkeys(FIGURES, (value,)))

    def pair(bits):
        return gain("resnet18", bits, 2.0), gain("resnet20", bits, 1.0)

    name = "last epoch"
    assert paper_sizes.chances([pair("1 bit")], name) == (0.5, 1.0)
    assert paper_sizes.chances([pair("1 bit"), pair("ternary")], name) == (0.5, 1.0)


def test_networks_without_a_comparison_are_named(evidence):
    train_gains(evidence, **dict.fromkeys(MILLIONS, 0.0))
    first, *_, last_one = not_run_yet(evidence).split("; ")
    assert (first, last_one) == ("CIFAR-10: VGG-16, ResNet-34", "ImageNet: ResNet-18")


def test_runs_of_a_pair_share_their_start(evidence):
    train_gains(evidence, resnet20=0.0, resnet18=1.0)
    assert paper_verdicts.shares_its_start(evidence).status == CONFIRMED
    apart = made_up_result(find_recipe("cifar10-resnet32-binary"))
    apart["initial_checkpoint"]["digest"] = "b" * 64
    write_result(evidence.root / "results", apart)
    train(evidence, "cifar10-resnet32-bwn", 90.0)
    evidence.__dict__.pop("runs")
    found = paper_verdicts.shares_its_start(evidence)
    assert found.status == CONTRADICTED and found.why.startswith("2 of 3 pairs")


def test_without_runs_nothing_is_claimed(evidence):
    train(evidence, "demo-float", 90.0)  # some run there must be
    silent = [claim for claim in CLAIMS if claim.verdict(evidence).status == NOT_RUN]
    assert len(silent) >= 10
    ahead = paper_verdicts.beats_its_baseline_on_imagenet(evidence)
    assert ahead.status == NOT_TESTABLE


def test_a_decay_without_growing_strength_does_not_speak_for_it(evidence):
    for method in ("binary", "ternary", "bwn", "twn", "float"):
        result = made_up_result(find_recipe(f"cifar100-vgg16-{method}"), last=70.0)
        for record in result["epochs"][200:220]:
            record["accuracy"] = 50.0 if method in ("binary", "ternary") else 65.0
        write_result(evidence.root / "results", result)
    assert paper_verdicts.decays_in_phase_one(evidence).status == CONFIRMED
    found = paper_verdicts.decays_because_of_the_strength(evidence)
    assert found.status == UNDECIDED and "float −" in found.why


def test_every_claim_of_sections_three_and_five_has_a_status():
    found = Evidence(ROOT)
    for claim in CLAIMS:
        verdict = claim.verdict(found)
        assert verdict.status in STATUSES and verdict.why, claim.says
        assert claim.where or verdict.status == NOT_TESTABLE
    sections = [claim.section for group in "35" for claim in paper_claims.GROUPS[group]]
    assert sections == sorted(sections)  # in the order of the paper
    assert {"3", "3.1", "3.2", "3.3", "5"} <= set(sections)


def test_tests_that_the_page_names_exist():
    named = set(re.findall(r"`(test_\w+)`", PAGE.read_text()))
    assert len(named) > 20
    files = [*(ROOT / "tests").rglob("test_*.py"), *(ROOT / "lab" / "tests").rglob("test_*.py")]
    text = "".join(file.read_text() for file in files)
    assert {name for name in named if f"def {name}(" not in text} == set()


def test_every_statement_of_the_paper_is_listed():
    statements = json.loads((ROOT / paper_claims.STATEMENTS).read_text())["statements"]
    labels = {row["label"].partition(",")[0].partition(" ")[0] for row in statements}
    assert set(paper_claims.PROPER) == labels - {"ceiling"}
    shown = paper_claims.statements(Evidence(ROOT))
    contradicted = [line for line in shown.splitlines() if CONTRADICTED in line]
    assert len(contradicted) == 2  # as they are stated: prop:global and lem:alt_update


def test_numbers_of_tries_are_those_of_their_results():
    """Names count in 300 epochs, results in 100."""
    rows = scaled(Evidence(ROOT)).splitlines()[2:]
    for row in rows:
        change, _, _, phase_two, growth, _ = row.strip("| ").split(" | ")
        name = "" if change == "none" else "+" + change.strip("`")
        folders = ROOT.glob(
            f"results/cifar10/cifar10-resnet20-binary-plus*{name}+held_out=5000@100"
        )
        for folder in folders:
            if change == "none" and folder.name.count("+") > 1:
                continue
            recipe = json.loads((folder / "seed0.json").read_text())["recipe"]
            assert phase_two == f"from epoch {recipe['phase_two_epoch']}"
            assert growth == f"{recipe['growth']:.4g}"


def test_all_tables_have_figures_of_the_paper():
    assert all(r.paper_accuracy is not None for t in TABLES.values() for r in t.recipes)


def test_gain_keeps_the_mean_over_seeds():
    gain = Gain("cifar10", "resnet20", "1 bit", 1000, 0.4, dict.fromkeys(FIGURES, (1.0, 2.0)))
    assert set(gain.lead.by.values()) == {1.5}
