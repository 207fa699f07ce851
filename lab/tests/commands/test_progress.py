"""How training looks: a line per epoch in a log, a table that is redrawn in a terminal."""

import io
import re
import time
from dataclasses import replace

import pytest
from lab.tests.support.tiny import tiny_data, tiny_recipe
from rich.console import Console

from binaryrelax_lab.commands.progress import LiveProgress, PlainProgress
from binaryrelax_lab.engine import Listener, Machine, RunOptions, jobs_of, train_all
from binaryrelax_lab.recipes import find_recipe, plain
from binaryrelax_lab.results import EpochRecord, RecipeFacts, RunResult, Summary

NUMBER = r"[\d.,e+-]+"
RELAXED_LINE = (
    rf"  epoch \d/4  phase I+  λ ({NUMBER}|∞)  lr {NUMBER}  loss {NUMBER}  accuracy {NUMBER} %"
    rf"  {NUMBER} images/s  time left \d+:\d\d"
)


def follow(listener, recipes, out, *, resume=False):
    options = RunOptions(resume=resume)
    jobs = jobs_of(recipes, seed=0, out=out)
    return train_all(jobs, tiny_data(), machine=Machine(), listener=listener, options=options)


def terminal(width: int) -> Console:
    """A terminal whose screen is a string."""
    return Console(
        file=io.StringIO(), width=width, height=40, force_terminal=True, color_system=None
    )


def drawn(progress: LiveProgress) -> list[str]:
    """The lines of the table as it is now."""
    console = progress.live.console
    with console.capture() as capture:
        console.print(progress.live.get_renderable())
    return [line.rstrip() for line in capture.get().splitlines()]


def test_lines_of_a_log_say_everything_about_an_epoch(tmp_path):
    recipes = [tiny_recipe("float"), tiny_recipe("binary")]
    console = Console(file=io.StringIO(), width=40)
    with PlainProgress(console, recipes) as listener:
        follow(listener, recipes, tmp_path)
    lines = console.file.getvalue().splitlines()
    assert lines[0] == "[1/2] tiny-float: Float"
    assert lines[6] == "[2/2] tiny-binary: BinaryRelax binary"
    for line in lines[7:11]:
        assert re.fullmatch(RELAXED_LINE, line), line
    assert [re.search(r"phase (\S+)  λ (\S+)", line).groups() for line in lines[7:11]] == [
        ("I", "4"), ("I", "64"), ("I", "1.02e+03"), ("II", "∞"),
    ]  # fmt: skip
    for line in lines[1:5]:
        words = ("  epoch ", "  lr ", "  loss ", "  accuracy ", " images/s", "  time left ")
        assert all(word in line for word in words)
        assert "phase" not in line
    assert re.fullmatch(r"  done in \d+ s: [\d.]+ %", lines[11])


def test_a_log_tells_of_what_was_kept_and_resumed(tmp_path):
    recipes = [tiny_recipe("float", epochs=2)]
    follow(Listener(), recipes, tmp_path)
    console = Console(file=io.StringIO(), width=80)
    with PlainProgress(console, recipes) as listener:
        follow(listener, recipes, tmp_path, resume=True)
        listener.run_started(recipes[0], 10, 5)
    lines = console.file.getvalue().splitlines()
    assert lines[0] == "[1/1] tiny-float: finished before, kept"
    assert lines[1].endswith("tiny-float: Float, resumed at epoch 0.5")


@pytest.mark.parametrize("width", [80, 120])
def test_table_in_a_terminal_fits_its_width(width, tmp_path):
    recipes = [tiny_recipe("float"), tiny_recipe("ternary")]
    progress = LiveProgress(terminal(width), recipes)
    with progress:
        follow(progress, recipes, tmp_path)
    lines = drawn(progress)
    assert max(map(len, lines)) <= width
    assert "…" not in "".join(lines)
    assert lines[0].split() == [
        "network",
        "epoch",
        "phase",
        "λ",
        "lr",
        "loss",
        "accuracy",
        "images/s",
    ]
    float_row, ternary_row = lines[1].split(), lines[2].split()
    assert float_row[:4] == ["Float", "4/4", "-", "-"]
    assert ternary_row[:5] == ["BinaryRelax", "ternary", "4/4", "II", "∞"]
    assert float_row[-1] == ternary_row[-1] == "s"
    assert lines[-1].startswith("in all") and "100 %  time left 0:00" in lines[-1]
    screen = re.sub(r"\x1b\[[\d?;]*\w", "", progress.live.console.file.getvalue())
    assert max(map(len, screen.replace("\r", "\n").splitlines())) <= width


def finished_run(name, *, seconds):
    recipe = RecipeFacts.from_json(plain(find_recipe(name)))
    return RunResult(recipe, 0, {}, None, seconds, (), Summary(0, None, None), None)


@pytest.mark.parametrize("width", [80, 120])
def test_table_with_the_longest_names_and_numbers_loses_nothing(width):
    longest = find_recipe("cifar100-resnet110-ternary-exact-plus")
    recipe = longest.with_settings({"growth": "1.0234567"}).with_epochs(299)
    recipes = [find_recipe("cifar100-resnet110-float-plus").with_epochs(299), recipe]
    record = EpochRecord(298, 2, 123456.0, 0.000411, 12.345, 100.0)
    progress = LiveProgress(terminal(width), recipes)
    progress.run_started(recipes[0], 391, 0)
    progress.run_finished(finished_run(recipes[0].name, seconds=123456.0))
    progress.run_started(recipe, 391, 391 * 298)
    progress.step_finished(128)
    progress.epoch_finished(record)
    progress.units_per_second = progress.speeds[recipe.name] = 123456.0
    lines = drawn(progress)
    assert max(map(len, lines)) <= width
    text = "".join(lines)
    assert "…" not in text
    for shown in ("299/299", "II", "1.23e+05", "0.000411", "12.345", "100.00 %", "123,456"):
        assert shown in text
    first_column = "".join(line[: lines[0].index("epoch") - 2].strip() for line in lines[1:-2])
    assert first_column == recipes[0].name + recipe.name


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (("demo-float@3", "demo-twn@3"), ("Float", "TWN")),
        (("demo-float", "demo-bwn", "demo-binary", "demo-twn"), ("Float", "BWN")),
        (("demo-float",), ("demo-float",)),
        (("demo-float", "demo-twn+lr=0.2"), ("demo-float", "demo-twn+lr=0.2")),
        (("demo-float", "demo-twn+lr=0.2", "demo-twn", "demo-bwn", "demo-bwn@3"), ("demo-float",)),
    ],
)
def test_rows_are_named_by_the_method_if_nothing_else_differs(names, shown):
    lines = drawn(LiveProgress(terminal(100), [find_recipe(name) for name in names]))
    assert [line.split()[0] for line in lines[1 : len(shown) + 1]] == list(shown)


def test_a_process_that_is_not_the_first_gets_no_result():
    recipe = tiny_recipe("float")
    for display in (PlainProgress, LiveProgress):
        with display(terminal(80), [recipe]) as progress:
            progress.run_started(recipe, 2, 0)  # and the end is told to the first alone


class Counting(Listener):
    """Counts the images of each epoch."""

    def __init__(self):
        self.epochs = [0]

    def step_finished(self, num_images):
        self.epochs[-1] += num_images

    def epoch_finished(self, record):
        self.epochs.append(0)


@pytest.mark.parametrize("batch_size", [16, 20, 99_999_999])
def test_speed_counts_images_not_batches(batch_size, tmp_path):
    """Of 32 images the last batch may have fewer than the others."""
    heard, recipe = Counting(), replace(tiny_recipe("float"), batch_size=batch_size)
    follow(heard, [recipe], tmp_path)
    assert heard.epochs == [32] * 4 + [0]


def test_speed_is_that_of_the_epoch():
    progress = PlainProgress(terminal(80), [tiny_recipe("float")])
    progress.run_started(progress.recipes[0], 2, 1)
    progress.step_finished(16)
    time.sleep(0.01)
    record = EpochRecord(0, None, None, 0.1, 1.0, 10.0)
    progress.epoch_finished(record)
    assert 0 < progress.units_per_second <= 1600


def test_notes_stand_above_the_table():
    progress = LiveProgress(terminal(80), [replace(tiny_recipe("float"), name="x" * 30)])
    with progress:
        progress.note("[bold] is not markup here")
    assert "[bold] is not markup here" in progress.live.console.file.getvalue()
