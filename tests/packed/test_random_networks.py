"""Random networks from packing to every engine: they agree, or are refused. See random_networks.

CI takes the first twentieth of what ``python -m tools.fuzz_networks --networks 500`` takes in full.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from binaryrelax.packed import PackedLayer
from tests.packed.cases import same_tensor
from tests.packed.random_networks import (
    FINE,
    ODDITIES,
    SUBCLASSES,
    Case,
    judge,
    judging,
    outputs,
    reason,
)

ROOT = Path(__file__).parents[2]
NUM_NETWORKS = 25
PLAIN = 1  # the seed of a network of which every stage agrees


def failures(result: dict) -> list[str]:
    stages = result["stages"].items()
    return [f"{stage}: {found}" for stage, found in stages if found["outcome"] not in FINE]


@pytest.mark.parametrize("seed", range(NUM_NETWORKS, NUM_NETWORKS + 12))  # the slow test has others
def test_networks_pack_save_and_load_or_are_refused(seed, tmp_path):
    result = judge(seed, tmp_path, export=False)
    again = f"python -m tools.fuzz_networks --seed {seed} --networks 1"
    assert not failures(result), f"{result['traits']}; to repeat it: {again}"


def test_networks_are_the_same_each_time():
    for seed in range(20):
        first, second = Case(seed), Case(seed)
        assert str(first) == str(second) and first.keep_float == second.keep_float
        models = first.make(), second.make()
        assert str(models[0]) == str(models[1])
        states = [list(model.state_dict().items()) for model in models]
        for (name, a), (other_name, b) in zip(*states, strict=True):
            assert name == other_name and same_tensor(a, b)
        assert torch.equal(first.inputs(5), second.inputs(5))


def test_networks_are_of_every_kind():
    """Among 500, which the full run takes."""
    found = {trait for seed in range(500) for trait in Case(seed).traits}
    kinds = {"rows", "sequence", "tokens", "signal", "image", "volume", "channels last", "fold"}
    ties = {"one module twice", "one weight in two layers", "weight read in forward"}
    ties |= {"tied Embedding", "own Embedding", "tied EmbeddingBag", "bias read in forward"}
    dtypes = {"float32", "bfloat16", "float16", "float64"}
    assert {*kinds, *ties, *dtypes, *ODDITIES, *SUBCLASSES} <= found


def _flipped(model, *arguments, **options):
    """Packs, and gets a weight wrong."""
    packed = _pack(model, *arguments, **options)
    layer = next(m for m in packed.modules() if isinstance(m, PackedLayer))
    layer.codes[0, 0] ^= 1
    return packed


_pack = judging.pack


def test_the_judge_notices_a_wrong_weight(tmp_path, monkeypatch):
    assert set(judge(PLAIN, tmp_path, export=False)["stages"]["exact"].values()) == {"agrees"}
    monkeypatch.setattr(judging, "pack", _flipped)
    found = judge(PLAIN, tmp_path, export=False)["stages"]["exact"]
    assert found["outcome"] == "differs" and "of the largest output" in found["detail"]


@pytest.mark.parametrize("kind", [RuntimeError, ValueError])
def test_errors_that_are_not_ours_are_crashes(kind, tmp_path, monkeypatch):
    def fail(*arguments, **options):
        raise kind("a line that looks like one of ours")

    monkeypatch.setattr(judging, "save_packed", fail)
    found = judge(PLAIN, tmp_path, export=False)["stages"]
    assert found["save"]["outcome"] == "crash" and "load" not in found


def test_the_judge_notices_a_file_of_another_network(tmp_path, monkeypatch):
    load = judging.load_packed

    def load_something_else(path, model):
        loaded = load(path, model)
        next(p for p in loaded.parameters()).data.add_(1)
        return loaded

    monkeypatch.setattr(judging, "load_packed", load_something_else)
    found = judge(PLAIN, tmp_path, export=False)["stages"]
    assert found["load"]["outcome"] == found["load, meta"]["outcome"] == "differs"


def test_outputs_are_taken_without_gradients():
    case = Case(PLAIN)
    found = outputs(case.make(), case.batches())
    assert [len(batch[0]) for batch in found] == [1, 5, 17]
    assert not any(leaf.requires_grad for batch in found for leaf in batch)


def test_reasons_hold_no_names_and_numbers():
    first = "pack: layer 'body.0': its weights are torch.float64; call f(x) of Linear"
    second = "pack: layer 'head': its weights are torch.float16; call f(y, 3) of Conv1d"
    assert reason(first) == reason(second)


@pytest.mark.slow
def test_a_twentieth_of_the_networks_agree_in_every_engine(tmp_path):
    """In processes of their own: an engine may die of what it is given."""
    out = tmp_path / "networks.json"
    arguments = ["--networks", str(NUM_NETWORKS), "--out", str(out)]
    done = subprocess.run(
        [sys.executable, "-m", "tools.fuzz_networks", *arguments],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=600,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    counts = json.loads(out.read_text())
    assert counts["networks"] == NUM_NETWORKS and counts["failures"] == []
    assert counts["agree_everywhere"] > NUM_NETWORKS / 3
    for stage in ("exact", "load", "onnx exact", "onnx", "openvino exact", "openvino"):
        assert counts["stages"][stage]["agrees"] > NUM_NETWORKS / 2
