"""The benchmark of the steps of language models, on a network that takes a moment."""

import json

import pytest
import torch
from lab.tests.support.tiny_language import tiny_language_recipe

from binaryrelax_lab.studies.bench.language import METHODS, Effort, bench_language

pytestmark = pytest.mark.peers
LITTLE = Effort(tiny_language_recipe, rounds=3, steps_a_round=2)


@pytest.mark.skipif(torch.cuda.is_available(), reason="its network is too small to compile")
def test_every_method_is_measured_beside_adamw():
    said = []
    found = json.loads(json.dumps(bench_language(said.append, LITTLE), allow_nan=False))
    assert (found["network"], found["batch_size"], found["context"]) == ("llama-tiny", 4, 16)
    assert 0 < found["num_quantized"] < found["num_weights"]
    records = {record["method"]: record for record in found["methods"]}
    assert tuple(records) == METHODS
    for record in records.values():
        assert 0 < record["fastest"] <= record["milliseconds"] <= record["slowest"]
        speed = record["tokens_per_second"] * record["milliseconds"] / 1000
        assert speed == pytest.approx(4 * 16)
    assert records["float"]["overhead_percent"] == 0
    assert any("relax-ternary" in line and "tokens/s" in line for line in said)
