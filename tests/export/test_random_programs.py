"""Random networks in the native runtime: it gives what torch gives. See random_programs.

CI takes the first twentieth of what ``python -m tools.fuzz_programs --count 2000`` takes in full.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.packed.cases import same_tensor

pytest.importorskip("binaryrelax_native")

from tests.export.random_programs import Case, judge, judging

ROOT = Path(__file__).parents[2]
NUM_PROGRAMS = 100
PLAIN = 28  # the seed of a network of which every stage agrees
KINDS = {
    "maps", "vectors", "convolution", "wide", "depthwise", "groups", "linear", "gate", "residual",
    "sum_or_product", "concatenation", "activation", "normalization", "pooling", "resampling",
    "rearrangement", "arithmetic", "summary", "flattening", "softmax", "several outputs",
    "float layers", "calibrated", "measured", "one scale per layer", "one scale per channel",
    "one scale per group", "Binary", "Ternary", "TernaryThreshold", "Uniform", "PowerOfTwo",
    "Levels", "OneStepLloyd",
}  # fmt: skip


def failures(result: dict) -> list[str]:
    stages = result["stages"].items()
    return [f"{stage}: {found}" for stage, found in stages if found["outcome"] != "agrees"]


@pytest.mark.parametrize("seed", range(NUM_PROGRAMS, NUM_PROGRAMS + 12))  # the slow test has others
def test_networks_run_as_in_torch(seed, tmp_path):
    result = judge(seed, tmp_path)
    again = f"python -m tools.fuzz_programs --seed {seed} --count 1"
    assert not failures(result), f"{result['traits']}; to repeat it: {again}"


def test_networks_are_the_same_each_time():
    for seed in range(8):
        (first, _), (second, _) = Case(seed).in_q(), Case(seed).in_q()
        assert str(first) == str(second) and first.wiring == second.wiring
        states = [list(model.state_dict().items()) for model in (first, second)]
        for (name, a), (other_name, b) in zip(*states, strict=True):
            assert name == other_name and same_tensor(a, b)
        for a, b in zip(Case(seed).inputs(3), Case(seed).inputs(3), strict=True):
            assert torch.equal(a, b)


def test_networks_are_of_every_kind():
    cases = [Case(seed) for seed in range(150)]
    for case in cases[:50]:  # only then it is known which layers stay float
        case.in_q()
    assert {trait for case in cases for trait in case.traits} >= KINDS


def _with_another_bias(model, *arguments, **options):
    """Exports, and gets a number wrong."""
    layer = [m for m in model.modules() if getattr(m, "bias", None) is not None][-1]
    before = layer.bias.detach().clone()
    with torch.no_grad():
        layer.bias[0] += 0.1 * before.abs().max() + 0.1
    try:
        _export(model, *arguments, **options)
    finally:
        layer.bias = nn.Parameter(before)


_export = judging.export_native


def test_the_judge_notices_a_wrong_number(tmp_path, monkeypatch):
    assert not failures(judge(PLAIN, tmp_path))
    monkeypatch.setattr(judging, "export_native", _with_another_bias)
    found = judge(PLAIN, tmp_path)["stages"]["exact"]
    assert found["outcome"] == "differs" and "of the largest output" in found["detail"]


def test_the_judge_notices_other_bits(tmp_path, monkeypatch):
    load = judging.binaryrelax_native.load

    def load_another_where_threads_are_two(path, *, threads=None, instruction_set=None):
        if threads == 2 and path.name == "fast.brx":
            path = path.with_name("exact.brx")
        return load(path, threads=threads, instruction_set=instruction_set)

    monkeypatch.setattr(judging.binaryrelax_native, "load", load_another_where_threads_are_two)
    found = judge(PLAIN, tmp_path)["stages"]
    assert found["exact"]["outcome"] == "agrees"
    assert "other bits with another number of threads" in found["fast"]["detail"]


@pytest.mark.slow
def test_a_twentieth_of_the_programs_run_as_in_torch(tmp_path):
    """In a process of its own: the runtime may die of what it is given."""
    out = tmp_path / "programs.json"
    arguments = ["--count", str(NUM_PROGRAMS), "--out", str(out)]
    done = subprocess.run(
        [sys.executable, "-m", "tools.fuzz_programs", *arguments],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=600,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    counts = json.loads(out.read_text())
    assert counts["networks"] == counts["agree_everywhere"] == NUM_PROGRAMS
    assert counts["failures"] == [] and not out.with_name("programs.json.partial").exists()
