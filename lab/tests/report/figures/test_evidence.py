"""The evidence is read once, and tells of each seed once."""

from dataclasses import replace
from pathlib import Path

from binaryrelax_lab.report.figures import Evidence, all_pictures, evidence, stale_files
from binaryrelax_lab.report.figures.markdown import gain_text, mean_text, range_text, spread_text

ROOT = Path(__file__).parents[4]


def counted_calls(monkeypatch, name):
    """The first arguments of all calls of a function of the module."""
    calls, function = [], getattr(evidence, name)
    monkeypatch.setattr(evidence, name, lambda path: calls.append(path) or function(path))
    return calls


def test_runs_and_files_are_read_once_for_pages_and_pictures(monkeypatch):
    folders, files = (counted_calls(monkeypatch, n) for n in ("collect_runs", "read_json"))
    pictures = {name: all_pictures({})[name] for name in ("evidence/flips", "evidence/phase-two")}
    stale_files(Evidence(ROOT), pictures)
    assert folders == [ROOT / "results"]
    assert len(files) == len(set(files)) > 10


def test_of_several_runs_of_a_seed_the_last_counts():
    found = Evidence(ROOT)
    name = "cifar10-resnet20-float-plus"
    first, *others = found.runs_of(name)
    found.runs[name] = [first, replace(first, source="again"), *others]
    assert [run.source for run in found.runs_of(name)] == ["again", *(r.source for r in others)]
    assert found.runs_of("a recipe that has not been run") == []


def test_a_run_is_recalibrated_by_itself_or_by_what_was_measured_later():
    found = Evidence(ROOT)
    gains = {
        (record["recipe"], record["seed"]): record["recalibrated"] - record["as_trained"]
        for record in found.read("results/findings/recalibration.json", "records")
    }
    own, later = set(), set()
    for name, runs in found.runs.items():
        untold = {run.seed for run in runs if run.last_recalibrated is None}
        for run in found.runs_of(name):
            if (name, run.seed) in gains and run.seed in untold:
                assert run.last_recalibrated == run.last + gains[name, run.seed]
                later.add(name)
            elif run.last_recalibrated is not None:
                own.add(name)
    assert own and later


def test_differences_are_shown_with_sign_spread_and_chance():
    assert gain_text([]) == spread_text([None]) == range_text([]) == mean_text([]) == "-"
    assert gain_text([1.0, 1.1, 1.2]) == "+1.10 ± 0.10 (3 of 3)"
    assert gain_text([-1.0, 2.0]) == "+0.50 ± 2.12 (1 of 2)"
    assert mean_text([-1.0, 2.0]) == "+0.50" and mean_text([90.0, 91.0], signed=False) == "90.50"
    assert range_text([0.5, -0.2, 0.1]) == "−0.20 to +0.50"
    assert range_text([0.101, 0.102], signed=False) == "0.10"
