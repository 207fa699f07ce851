"""The committed results belong together: runs, the networks they started from, what is shown."""

import sys
from pathlib import Path

import pytest

from binaryrelax.lab.engine import read_json
from binaryrelax.lab.engine.files import digest_of
from binaryrelax.lab.engine.job import agree
from binaryrelax.lab.recipes import find_recipe, plain
from binaryrelax.lab.report.collection import collect_runs

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
from figures.common import RESULTS, ROOT
from figures.evidence import final_strength

RUNS = collect_runs(RESULTS).runs
# Second trainings of a float network: others started from them, the tables show the first ones.
ANCESTORS = [read_json(path) for path in sorted((RESULTS / "ancestors").glob("*.json"))]


def test_every_run_started_from_a_network_whose_result_is_committed():
    trained = {
        (result["recipe"]["name"], result["seed"], result["weights"]["digest"])
        for result in (*ANCESTORS, *(run.result for run in RUNS))
    }
    children = [run for run in RUNS if run.result["recipe"]["starts_from"]]
    assert len(children) > 250
    for run in children:
        start, recipe = run.result["initial_checkpoint"], run.result["recipe"]
        assert (recipe["starts_from"], run.seed, start["digest"]) in trained, run.source


def test_no_ancestor_is_kept_that_nothing_started_from():
    starts = [run.result["initial_checkpoint"] for run in RUNS]
    digests = {start["digest"] for start in starts if start}
    assert all(result["weights"]["digest"] in digests for result in ANCESTORS)


def test_every_run_followed_its_recipe_to_the_last_epoch():
    """As the recipe is now: none was changed after it had been run."""
    for run in RUNS:
        recipe = find_recipe(run.name)
        assert agree("recipe", run.result["recipe"], plain(recipe)), run.source
        assert [record["epoch"] for record in run.result["epochs"]] == list(range(recipe.epochs))


def test_tries_tell_their_split_and_are_measured_on_it():
    tries = [run for run in RUNS if find_recipe(run.name).held_out]
    assert len(tries) > 30
    for run in tries:
        split = run.result["split"]
        assert (split["trained_on"], split["held_out"]) == (45_000, 5_000), run.source
        images = [accuracy * 50 for accuracy in run.accuracies]  # of 5,000, one is 0.02 %
        assert images == pytest.approx([round(number) for number in images], abs=1e-6), run.source


def test_no_seed_of_a_recipe_has_two_results():
    assert len({(run.name, run.seed) for run in RUNS}) == len(RUNS)


def test_all_quantized_networks_lie_in_q():
    assert all(run.result["summary"]["in_q"] for run in RUNS if run.is_quantized)


@pytest.mark.parametrize("file", sorted((ROOT / "networks" / "float").iterdir()), ids=str)
def test_float_networks_are_those_of_the_results(file):
    recipe, _, seed = file.stem.rpartition("-")
    result = read_json(RESULTS / "cifar10" / recipe / f"{seed}.json")
    assert digest_of(file) == result["weights"]["digest"]


def test_strengths_that_are_shown_are_those_of_the_runs():
    relaxed = [run for run in RUNS if run.is_relaxed and run.phase_two_epoch > 0]
    for run in relaxed:
        shown = final_strength(find_recipe(run.name))
        assert shown == f"{run.finite_strengths[-1]:,.0f}", run.source


def test_networks_recalibrated_later_are_those_of_the_results():
    """By their accuracy, which another machine rounds a little differently."""
    of_seed = {(run.name, run.seed): run for run in RUNS}
    for record in read_json(RESULTS / "findings" / "recalibration.json")["records"]:
        run = of_seed[record["recipe"], record["seed"]]
        assert run.last_recalibrated is None  # else there would be two figures for one thing
        assert record["as_trained"] == pytest.approx(run.last, abs=0.15)
