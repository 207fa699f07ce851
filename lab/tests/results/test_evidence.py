"""The committed results belong together: runs, the networks they started from, what is shown."""

from pathlib import Path

import pytest

from binaryrelax_lab.files import digest_of, read_json
from binaryrelax_lab.recipes import find_recipe, plain
from binaryrelax_lab.report.figures.schedules import final_strength
from binaryrelax_lab.results import RunResult, collect_runs

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "results"
RUNS = collect_runs(RESULTS).runs
# Second trainings of a float network: others started from them, the tables show the first ones.
ANCESTORS = [
    RunResult.from_json(read_json(path)) for path in sorted((RESULTS / "ancestors").glob("*.json"))
]


def test_every_run_started_from_a_network_whose_result_is_committed():
    trained = {(run.name, run.seed, run.digest) for run in (*ANCESTORS, *RUNS)}
    children = [run for run in RUNS if run.recipe.settings["starts_from"]]
    assert len(children) > 250
    for run in children:
        parent = run.recipe.settings["starts_from"], run.seed, run.start.digest
        assert parent in trained, run.source


def test_no_ancestor_is_kept_that_nothing_started_from():
    digests = {run.start.digest for run in RUNS if run.start}
    assert all(ancestor.digest in digests for ancestor in ANCESTORS)


def test_every_run_followed_its_recipe_to_the_last_epoch():
    """As the recipe is now: none was changed after it had been run."""
    for run in RUNS:
        recipe = find_recipe(run.name)
        assert run.recipe.settings == plain(recipe), run.source
        assert [record.epoch for record in run.epochs] == list(range(recipe.epochs))


def test_every_result_is_written_as_it_was_read():
    """All that the files of any age tell is typed: nothing is lost by reading them."""
    for run in RUNS:
        content = read_json(RESULTS / run.source)
        again = run.to_json()
        for key, told in content.items():
            assert _told_in(told, again[key]), (run.source, key)


def _told_in(told, again):
    """Whether everything that a file tells comes back; older files tell less."""
    if isinstance(told, dict):
        return all(_told_in(value, again.get(key)) for key, value in told.items())
    if isinstance(told, list):
        return len(told) == len(again) and all(map(_told_in, told, again))
    return told == again


def test_tries_tell_their_split_and_are_measured_on_it():
    tries = [run for run in RUNS if find_recipe(run.name).held_out]
    assert len(tries) > 30
    for run in tries:
        assert (run.split["trained_on"], run.split["held_out"]) == (45_000, 5_000), run.source
        images = [accuracy * 50 for accuracy in run.accuracies]  # of 5,000, one is 0.02 %
        assert images == pytest.approx([round(number) for number in images], abs=1e-6), run.source


def test_no_seed_of_a_recipe_has_two_results():
    assert len({(run.name, run.seed) for run in RUNS}) == len(RUNS)


def test_all_quantized_networks_lie_in_q():
    assert all(run.summary.in_q for run in RUNS if run.recipe.is_quantized)


@pytest.mark.parametrize("file", sorted((ROOT / "networks" / "float").iterdir()), ids=str)
def test_float_networks_are_those_of_the_results(file):
    recipe, _, seed = file.stem.rpartition("-")
    result = RunResult.from_json(read_json(RESULTS / "cifar10" / recipe / f"{seed}.json"))
    assert digest_of(file) == result.digest


def test_strengths_that_are_shown_are_those_of_the_runs():
    relaxed = [run for run in RUNS if run.recipe.is_relaxed and run.recipe.phase_two_epoch > 0]
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
