import io
from dataclasses import replace

import pytest
from lab.tests.support.command import files_in
from lab.tests.support.tiny import METHODS, tiny_data, tiny_recipe
from rich.console import Console

from binaryrelax_lab.commands.progress import Clock, LiveProgress, PlainProgress
from binaryrelax_lab.demo import demo_recipes, pack_networks, write_demo_report
from binaryrelax_lab.engine import (
    FINAL_NAME,
    HISTOGRAMS_NAME,
    RESULT_NAME,
    Listener,
    Machine,
    RunOptions,
    jobs_of,
    train_all,
)


@pytest.fixture
def recipes():
    return [tiny_recipe(method, epochs=2) for method in METHODS]


class Counting(Listener):
    """Notes which runs were trained and which were kept."""

    def __init__(self):
        self.trained, self.kept = [], []

    def run_finished(self, result):
        self.trained.append(result.recipe.method)

    def run_skipped(self, result):
        self.kept.append(result.recipe.method)


def run_demo(out, recipes, *, seed=0, resume=False, listener=None):
    """What the command does, with a few images."""
    return train_all(
        jobs_of(recipes, seed=seed, out=out),
        tiny_data(),
        machine=Machine(),
        listener=listener or Listener(),
        options=RunOptions(resume=resume, checkpoint_every=1),
    )


def test_demo_trains_all_five_and_a_second_time_starts_over(recipes, tmp_path):
    for _ in range(2):
        listener = Counting()
        run_demo(tmp_path, recipes, listener=listener)
        assert listener.trained == list(METHODS)
    assert len(write_demo_report(tmp_path, recipes, pack_networks(tmp_path, recipes))) == 5
    assert (tmp_path / "report.html").is_file() and (tmp_path / "picture.png").is_file()


def test_demo_that_starts_over_has_no_old_results_while_it_runs(recipes, tmp_path):
    class Looking(Listener):
        def run_started(self, recipe, steps_per_epoch, steps_done):
            seen.append(sorted(path.parent.name for path in tmp_path.rglob(RESULT_NAME)))

    run_demo(tmp_path, recipes[:2])
    seen = []
    run_demo(tmp_path, recipes[:2], listener=Looking())
    assert seen == [[], ["tiny-float"]]


def test_resume_keeps_finished_runs(recipes, tmp_path):
    first = run_demo(tmp_path, recipes)
    (tmp_path / "tiny-twn" / RESULT_NAME).unlink()
    listener = Counting()
    again = run_demo(tmp_path, recipes, resume=True, listener=listener)
    assert listener.trained == ["twn"]
    assert listener.kept == ["float", "bwn", "binary", "ternary"]
    assert [r.weights for r in again] == [r.weights for r in first]


def test_resume_with_another_seed_is_refused_and_changes_nothing(recipes, tmp_path):
    run_demo(tmp_path, recipes)
    before = files_in(tmp_path)
    with pytest.raises(ValueError, match="tiny-float holds a finished run with seed 0 instead"):
        run_demo(tmp_path, recipes, seed=1, resume=True)
    assert files_in(tmp_path) == before


def test_resume_notices_a_changed_checkpoint(recipes, tmp_path):
    run_demo(tmp_path, recipes)
    path = tmp_path / "tiny-bwn" / FINAL_NAME
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")
    before = files_in(tmp_path)
    with pytest.raises(ValueError, match=r"tiny-bwn holds a finished run .*not the one that its"):
        run_demo(tmp_path, recipes, resume=True)
    assert files_in(tmp_path) == before


def test_report_of_a_demo_whose_histograms_are_gone(recipes, tmp_path):
    run_demo(tmp_path, recipes)
    for method in ("binary", "ternary"):
        (tmp_path / f"tiny-{method}" / HISTOGRAMS_NAME).unlink()
    listener = Counting()
    run_demo(tmp_path, recipes, resume=True, listener=listener)
    assert listener.kept == list(METHODS)
    write_demo_report(tmp_path, recipes, [])
    assert (tmp_path / "report.html").is_file() and (tmp_path / "picture.png").is_file()


def test_demo_recipes_are_the_five_methods():
    assert [recipe.method for recipe in demo_recipes()] == list(METHODS)
    assert demo_recipes(3)[4].name == "demo-ternary@3"


@pytest.mark.parametrize("display", [PlainProgress, LiveProgress])
def test_progress_names_every_network(display, recipes, tmp_path):
    console = Console(file=io.StringIO(), width=100, force_terminal=display is LiveProgress)
    with display(console, recipes) as listener:
        run_demo(tmp_path, recipes, listener=listener)
    text = console.file.getvalue()
    for name in ("Float", "BWN", "BinaryRelax binary", "TWN", "BinaryRelax ternary"):
        assert name in text
    for word in ("λ", "loss", "accuracy", "time left"):
        assert word in text


def test_clock_counts_skipped_epochs_as_done():
    clock = Clock(num_epochs=10)
    assert clock.time_left() == "--:--"
    clock.skip(5)
    clock.advance(5)
    assert clock.share_done == 1
    assert clock.time_left() == "0:00"


def test_plain_progress_stays_on_one_line_per_epoch(tmp_path, recipes):
    console = Console(file=io.StringIO(), width=40)
    only = [replace(recipes[0], epochs=3, phase_two_epoch=2)]
    with PlainProgress(console, only) as listener:
        run_demo(tmp_path, only, listener=listener)
    assert console.file.getvalue().count("\n") == 1 + 3 + 1
