"""The profile of a training step on a CUDA device."""

import json

import pytest
import torch

from binaryrelax_lab.engine import Machine
from binaryrelax_lab.studies.bench.step_profile import profile_steps
from binaryrelax_lab.studies.bench.training_steps import random_images

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


def test_profile_of_resnet20_accounts_for_its_step():
    machine, said = Machine(torch.device("cuda"), "bf16"), []
    with machine.settings():
        data = random_images().to(machine.device)
        found = profile_steps(data, machine, said.append, networks=("resnet20",))
    found = json.loads(json.dumps(found, allow_nan=False))
    assert [record["variant"] for record in found["records"]] == ["binary", "ternary-exact"]
    assert not [line for line in said if "slower" in line]  # compiled, and captured in a graph
    for record in found["records"]:
        times = {part["kind"]: part["microseconds"] for part in record["kinds"]}
        wall = record["wall_microseconds"]
        for kind in ("convolutions and matrix products", "optimizer and relaxation"):
            assert 0 < times[kind] < wall
        assert times["compiled elementwise and normalisation"] > 0
        assert times["other"] < 0.2 * wall
        assert record["surplus_microseconds"] < 0.1 * wall
