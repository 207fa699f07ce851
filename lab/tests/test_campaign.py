"""Campaigns: all missing cells of a table, in real threads, again and again until all is done."""

import time
from dataclasses import replace

import pytest
import torch
from lab.tests.support.campaigns import Diary, carry_on, evidence, small_table, stopping_after
from lab.tests.support.errors import one_line
from lab.tests.support.tiny import METHODS, tiny_recipe

from binaryrelax_lab.campaign import Campaign, Deadline, recipes_of_tables
from binaryrelax_lab.engine import FINAL_NAME, RESULT_NAME, Machine, digest_of, read_json
from binaryrelax_lab.engine.checkpoint import checkpoints
from binaryrelax_lab.recipes import ALL_RECIPES

DATASET = "fashion-mnist-12k"


def snapshot(folder):
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A campaign that nobody has stopped."""
    campaign = Campaign(recipes=small_table(), out=tmp_path_factory.mktemp("finished"))
    carry_on(campaign)
    return campaign


def test_all_cells_are_trained_side_by_side_after_their_float_ancestor(tmp_path):
    campaign, diary = Campaign(recipes=small_table(), out=tmp_path), Diary()
    outcome = carry_on(campaign, diary)
    assert [job.recipe.method for job in outcome.waiting + outcome.stopped] == []
    assert {job.recipe.method for job in outcome.finished} == set(METHODS)
    assert diary.events[:2] == [("begun", "float 0"), ("finished", "float 0")]
    assert diary.most_at_once == 2
    ancestor = digest_of(tmp_path / "runs" / "tiny-float" / "seed0" / FINAL_NAME)
    for method in METHODS:
        file = tmp_path / "results" / DATASET / f"tiny-{method}" / "seed0.json"
        run = tmp_path / "runs" / f"tiny-{method}" / "seed0"
        assert file.read_bytes() == (run / RESULT_NAME).read_bytes()
        if method != "float":
            assert read_json(file)["initial_checkpoint"]["digest"] == ancestor


def test_seeds_may_begin_anywhere(tmp_path):
    campaign = Campaign(recipes=small_table(), out=tmp_path, num_seeds=2, first_seed=100)
    jobs = campaign.jobs()
    assert {job.seed for job in jobs} == {100, 101}
    relaxed = [job for job in jobs if job.initial]
    assert relaxed and all(job.initial.parent.name == f"seed{job.seed}" for job in relaxed)


def test_a_run_that_diverges_does_not_stop_the_others(tmp_path):
    too_fast = replace(tiny_recipe("float"), name="tiny-too-fast", lr=1e30)
    outcome = carry_on(Campaign(recipes=(too_fast, tiny_recipe("float")), out=tmp_path))
    assert [job.recipe.name for job in outcome.diverged] == ["tiny-too-fast"]
    assert [job.recipe.name for job in outcome.finished] == ["tiny-float"]


def test_second_call_does_nothing(finished):
    before, diary = snapshot(finished.out), Diary()
    outcome = carry_on(finished, diary)
    assert (outcome.finished, outcome.stopped, outcome.waiting) == ([], [], [])
    assert diary.events == []
    assert snapshot(finished.out) == before


def test_result_that_was_not_collected_is_collected_without_training(finished):
    job = finished.jobs()[2]
    file = finished.result_file(job)
    content = file.read_bytes()
    file.unlink()
    diary = Diary()
    assert carry_on(finished, diary).finished == [job]
    assert diary.events == []
    assert file.read_bytes() == content


def test_patterns_choose_recipes_and_their_ancestors_come_along(tmp_path):
    chosen = Campaign(recipes=small_table(), out=tmp_path, only=("*-binary", "*-tw?"))
    assert [job.recipe.method for job in chosen.jobs()] == ["float", "binary", "twn"]
    ancestors = Campaign(recipes=small_table(), out=tmp_path, only=("*float",))
    assert [job.recipe.method for job in ancestors.jobs()] == ["float"]
    with pytest.raises(ValueError, match=r"^\*vgg\* matches no recipe.*tiny-ternary") as error:
        replace(chosen, only=("*vgg*",)).jobs()
    one_line(error)


def test_patterns_can_choose_single_seeds(tmp_path):
    only = ("*-binary/seed1", "*-twn")
    campaign = Campaign(recipes=small_table(), out=tmp_path, only=only, num_seeds=2)
    assert [(job.recipe.method, job.seed) for job in campaign.jobs()] == [
        ("float", 0), ("float", 1), ("binary", 1), ("twn", 0), ("twn", 1),
    ]  # fmt: skip
    alone = replace(campaign, only=("*-binary/seed1",))
    assert [(job.recipe.method, job.seed) for job in alone.jobs()] == [("float", 1), ("binary", 1)]


def test_several_tables_are_filled_together_if_they_are_of_one_dataset():
    together = recipes_of_tables("cifar10-plus", "cifar10-tuned")
    names = [recipe.name for recipe in together]
    assert len(set(names)) == len(names) == len(recipes_of_tables("cifar10-plus")) + 4
    with pytest.raises(ValueError, match="of cifar10 and cifar100; start a campaign") as error:
        recipes_of_tables("cifar10", "cifar100-plus")
    one_line(error)


def test_seeds_are_runs_of_their_own_from_ancestors_of_their_own(tmp_path):
    campaign = Campaign(recipes=small_table(1), out=tmp_path, only=("*bwn",), num_seeds=2)
    diary = Diary()
    carry_on(campaign, diary, num_jobs=1)
    assert diary.names("finished") == ["float 0", "float 1", "bwn 0", "bwn 1"]
    results = tmp_path / "results" / DATASET
    for seed in (0, 1):
        result = read_json(results / "tiny-bwn" / f"seed{seed}.json")
        assert result["seed"] == seed
        ancestor = tmp_path / "runs" / "tiny-float" / f"seed{seed}" / FINAL_NAME
        assert result["initial_checkpoint"]["digest"] == digest_of(ancestor)
    more = replace(campaign, num_seeds=3)
    assert [(job.recipe.method, job.seed) for job in more.missing()] == [("float", 2), ("bwn", 2)]


@pytest.mark.parametrize("steps_before_stop", [1, 3, 9])
def test_stopped_campaign_goes_on_to_the_same_bits(steps_before_stop, finished, tmp_path):
    campaign = Campaign(recipes=small_table(), out=tmp_path)
    steps_of_calls = []
    for _ in range(60):
        diary = Diary()
        outcome = carry_on(campaign, diary, should_stop=stopping_after(steps_before_stop, diary))
        steps_of_calls.append(diary.num_steps)
        for job in outcome.stopped:
            assert len(checkpoints(job.folder)) >= 1
            assert not campaign.result_file(job).exists()
        if not outcome.stopped + outcome.waiting:
            break
    assert sum(steps_of_calls) == 5 * 2 * 2  # networks, epochs, steps of each: none is taken twice
    assert max(steps_of_calls) <= steps_before_stop + 1  # the other network's step is finished
    assert not campaign.missing()
    assert evidence(campaign) == evidence(finished)


def test_nothing_is_begun_when_the_time_is_over_before(tmp_path):
    campaign, diary = Campaign(recipes=small_table(), out=tmp_path), Diary()
    outcome = carry_on(campaign, diary, should_stop=Deadline(0.0, lambda: False))
    assert len(outcome.waiting) == 5
    assert diary.events == []


def test_deadline_keeps_some_seconds_for_the_last_checkpoints():
    assert not Deadline(None, lambda: False)()
    assert Deadline(None, lambda: True)()
    assert not Deadline(0.5, lambda: False)()
    assert Deadline(0.25, lambda: False)()
    deadline = Deadline(15.2 / 60, lambda: False)
    assert not deadline()
    time.sleep(0.25)
    assert deadline()


def test_deadline_ends_a_campaign_with_checkpoints(tmp_path):
    campaign = Campaign(recipes=small_table(epochs=500), out=tmp_path)
    begin = time.monotonic()
    outcome = carry_on(campaign, should_stop=Deadline(16 / 60, lambda: False))
    assert time.monotonic() - begin < 15
    [job] = outcome.stopped
    assert job.recipe.method == "float"
    assert len(outcome.waiting) == 4
    assert checkpoints(job.folder)


def test_run_that_fails_stops_the_others_with_a_checkpoint(tmp_path):
    """The error names the run; once its cause is gone the others go on where they were."""
    float_recipe, bwn, *_ = small_table()
    broken = replace(bwn, lr=1e30)
    long = replace(tiny_recipe("twn", epochs=3000), name="tiny-long")
    campaign = Campaign(recipes=(float_recipe, broken, long), out=tmp_path)
    with pytest.raises(ValueError, match=r"tiny-bwn seed 0 failed \(.*learning rate") as error:
        carry_on(campaign)
    one_line(error)
    assert campaign.result_file(campaign.jobs()[0]).is_file()
    assert not campaign.result_file(campaign.jobs()[1]).exists()
    assert checkpoints(tmp_path / "runs" / "tiny-long" / "seed0")
    diary, mended = Diary(), replace(campaign, recipes=(float_recipe, bwn, long))
    carry_on(mended, diary, should_stop=lambda: "bwn 0" in diary.names("finished"))
    assert ("resumed", "twn 0") in diary.events
    assert mended.result_file(mended.jobs()[1]).is_file()


def test_small_networks_are_not_shared_among_threads(tmp_path):
    """The bits do not depend on the cores of the machine, and nothing is left changed."""
    torch.set_num_threads(2)
    try:
        campaign = Campaign(recipes=small_table(1), out=tmp_path, only=("*float",))
        carry_on(campaign)
        environment = read_json(campaign.result_file(campaign.jobs()[0]))["environment"]
        assert environment["threads"] == 1 and environment["other_jobs"] == 0
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


def test_run_that_ends_does_not_switch_determinism_off_for_the_others(tmp_path):
    class Watching(Diary):
        def add(self, name, what, *, more=0):
            super().add(name, what, more=more)
            switches.append((what, name, torch.are_deterministic_algorithms_enabled()))

    switches = []
    long = replace(tiny_recipe("twn", epochs=20), name="tiny-long")
    campaign = Campaign(recipes=(*small_table(1)[:2], long), out=tmp_path)
    carry_on(campaign, Watching(), machine=Machine(deterministic=True))
    assert switches[-1] == ("finished", "twn 0", True)
    assert all(is_on for _, _, is_on in switches)
    assert not torch.are_deterministic_algorithms_enabled()


def test_tables_of_the_command():
    cells = {
        r.name for table in ("cifar10", "cifar100", "imagenet") for r in recipes_of_tables(table)
    }
    assert len(cells) == 13 * 5
    with pytest.raises(ValueError, match="no table is called 'mnist'; there are: cifar10,"):
        recipes_of_tables("mnist")


@pytest.mark.parametrize("table", ["cifar10", "cifar10-exact", "cifar100-plus", "imagenet", "demo"])
def test_every_table_holds_the_ancestors_of_its_cells(table, tmp_path):
    campaign = Campaign(recipes=recipes_of_tables(table), out=tmp_path, num_seeds=2)
    jobs = campaign.jobs()
    assert len(jobs) == 2 * len(campaign.recipes)
    produced = set()
    for job in jobs:
        assert job.initial is None or job.initial in produced
        produced.add(job.folder / FINAL_NAME)
    assert {recipe.dataset for recipe in campaign.recipes} == {campaign.dataset}
    assert set(campaign.recipes) <= set(ALL_RECIPES)
