"""The benchmark of measuring, and that nothing is paid for what is not called."""

import json
from pathlib import Path

import pytest
from lab.tests.support.command import app
from lab.tests.support.tiny import tiny_data
from typer.testing import CliRunner

from binaryrelax import Binary, BinaryRelax, Hard, measure, monitor, select_weights
from binaryrelax_lab.studies.bench import monitor as bench
from tests.optim.toy import sgd, small_network, train

COMMITTED = Path(__file__).parents[4] / "results" / "theory" / "monitor.json"


def test_measures_every_quantizer(monkeypatch):
    monkeypatch.setattr(bench, "load_fashion_mnist", tiny_data)
    said = []
    report = json.loads(json.dumps(bench.bench_monitor(said.append, 1), allow_nan=False))
    assert [row["quantizer"] for row in report["rows"]] == [
        "Binary()", "TernaryThreshold(ratio=0.7)", "Ternary()",
    ]  # fmt: skip
    assert len(said) == 3
    for row in report["rows"]:
        ratio = row["measure_seconds"] / row["epoch_seconds"]
        assert row["measure_percent"] == pytest.approx(100 * ratio)


def test_the_command_writes_where_it_is_started_not_over_committed_figures(tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "load_fashion_mnist", tiny_data)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["bench", "monitor"])
    assert done.exit_code == 0, done.output
    assert "written to bench-monitor.json" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["bench-monitor.json"]


@pytest.mark.skipif(not COMMITTED.exists(), reason="not measured yet")
def test_committed_figures_are_within_the_limit():
    report = json.loads(COMMITTED.read_text())
    assert all(row["measure_percent"] < report["limit_percent"] for row in report["rows"])


def test_no_hook_is_left_where_nothing_is_monitored():
    model = small_network()
    optimizer = BinaryRelax(sgd(model), select_weights(model, Binary()), Hard())
    hooks = optimizer._optimizer_step_pre_hooks
    train(model, optimizer, 1)
    measure(optimizer)
    assert not hooks
    with monitor(optimizer):
        assert len(hooks) == 1
    assert not hooks
