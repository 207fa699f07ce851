"""`binaryrelax bench profile`: every step of a network with its work, its time and the peak."""

from pathlib import Path

import pytest
import torch
from torch import nn

from binaryrelax_lab.models import build_network
from binaryrelax_lab.studies.bench import profile

ROOT = Path(__file__).parents[4]


def test_work_is_counted_layer_by_layer():
    model = nn.Sequential(nn.Conv2d(4, 6, 3, groups=2, stride=2), nn.Flatten(), nn.Linear(24, 5))
    found = profile.multiply_additions(model, torch.zeros(1, 4, 5, 5))
    assert found == {"0": 6 * 2 * 2 * 2 * 9, "2": 24 * 5}
    assert not model[0]._forward_hooks


def test_what_prepares_a_layer_counts_as_its_own():
    rounds = [
        [("value 0: to bytes", 1.0), ("conv: tiles", 2.0), ("conv", 5.0)],
        [("value 0: to bytes", 3.0), ("conv: tiles", 1.0), ("conv", 4.0)],
    ]
    least = profile.least_seconds(rounds, {"conv"})
    assert least == pytest.approx({"value 0: to bytes": 1e-3, "conv": 5e-3})


def test_every_step_has_a_time_and_every_layer_its_work():
    pytest.importorskip("binaryrelax_native")
    said = []
    report = profile.bench_profile(
        said.append, ROOT / "networks", networks=("resnet20",), repetitions=3
    )
    [network] = report["networks"]
    steps = {step["name"]: step for step in network["steps"]}
    layers = profile.multiply_additions(build_network("resnet20"), torch.zeros(1, 3, 32, 32))
    assert {name: step["macs"] for name, step in steps.items() if step["macs"]} == layers
    assert all(step["seconds"] >= 0 for step in steps.values())
    assert network["int8_peak"] > 1e8 and "% of the peak" in said[0]
    assert report["machine"]["threads"] == 1 and report["repetitions"] == 3
