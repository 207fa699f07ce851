"""The benchmark of the projections, at sizes that take a moment."""

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from binaryrelax import Uniform
from binaryrelax_lab.studies.bench.projection import Effort, bench_projection, iterated_lloyd

COMMITTED = Path(__file__).parents[4] / "benchmarks" / "results" / "projection.json"
LITTLE = Effort(
    ternary_sizes=(100, 1000),
    lloyd_size=1000,
    sweep_sizes=(1000,),
    bracketed_sizes=(),
    bits=(3,),
    repetitions=1,
)


@pytest.fixture(scope="module")
def said():
    return []


@pytest.fixture(scope="module")
def report(said):
    """What it measures where torchao is not installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "torchao", None)
        for name in [name for name in sys.modules if name.startswith("torchao.")]:
            patch.delitem(sys.modules, name)
        return json.loads(json.dumps(bench_projection(said.append, LITTLE), allow_nan=False))


def names_of(records):
    return {tuple(record) for record in records if "note" not in record}


def test_report_has_the_form_of_the_committed_one(report):
    committed = json.loads(COMMITTED.read_text())
    assert list(report) == list(committed)
    assert list(report["machine"]) == list(committed["machine"])
    for part in ("ternary", "lloyd", "sweep"):
        assert names_of(report[part]) == names_of(committed[part])
    assert {r["method"] for r in report["lloyd"]} == {r["method"] for r in committed["lloyd"]}
    theirs = {r["method"] for r in committed["ternary"]} - {r["method"] for r in report["ternary"]}
    assert all(method.startswith("torchao") for method in theirs)


def test_figures_make_sense(report):
    errors = {(r["size"], r["method"]): r["error"] for r in report["ternary"]}
    for size in LITTLE.ternary_sizes:
        assert 0 < errors[size, "Ternary (exact)"] <= errors[size, "TernaryThreshold (TWN)"] < 1
        assert errors[size, "torch.sort alone"] is None
    assert min(r["excess"] for r in report["lloyd"]) == 0
    assert all(r["seconds"] > 0 for part in ("lloyd", "sweep") for r in report[part])
    assert {r["sweep"] for r in report["sweep"]} == {"bracketed", "full"}
    assert all(r["megabytes"] >= 0 for r in report["sweep"])


def test_absent_torchao_is_said(report, said):
    assert not [r for r in report["ternary"] if "torchao" in r["method"]]
    assert any("torchao is not installed: its rows are left out" in line for line in said)


def test_tables_are_said_at_the_end(report, said):
    text = "\n".join(said)
    for title in ("(a) Ternary, normal", "(b) b-bit, normal", "(c) Bracketed and full sweep: time"):
        assert title in text


@pytest.mark.skipif(find_spec("torchao") is None, reason="needs torchao")
def test_torchao_is_measured_where_it_is_installed():
    from binaryrelax_lab.language.requirements import quiet_torchao
    from binaryrelax_lab.studies.bench.projection import _measure_ternary

    with quiet_torchao():
        records = _measure_ternary(lambda line: None, LITTLE)
    assert len([r for r in records if r["method"].startswith("torchao")]) == 6


def test_iterated_lloyd_approaches_the_optimum():
    w = torch.randn(1000, generator=torch.Generator().manual_seed(1))
    optimum = (w - Uniform(bits=3).project(w)).square().sum()
    gaps = [
        float((w - iterated_lloyd(Uniform(bits=3), count)(w)).square().sum() - optimum)
        for count in (1, 5, 100)
    ]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[0] > gaps[-1] >= -1e-4
