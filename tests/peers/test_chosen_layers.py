"""Exactly the intended layers of transformers' networks are quantized; the docs' table has them."""

import json
from pathlib import Path

import pytest
import torch

from binaryrelax import PerChannel, Ternary
from tests.peers.chosen_layers import builders, row

pytestmark = pytest.mark.peers
RECORDED = Path(__file__).parents[2] / "results" / "zoo" / "chosen-layers.json"
OF_LLAMA = [
    *(f"model.layers.N.self_attn.{part}_proj" for part in "qkvo"),
    *(f"model.layers.N.mlp.{part}_proj" for part in ("gate", "up", "down")),
]
OF_BERT = [
    *(f"bert.encoder.layer.N.attention.self.{part}" for part in ("query", "key", "value")),
    "bert.encoder.layer.N.attention.output.dense",
    "bert.encoder.layer.N.intermediate.dense",
    "bert.encoder.layer.N.output.dense",
]
BERTS_TABLES = [f"bert.embeddings.{kind}_embeddings" for kind in ("word", "position", "token_type")]
INTENDED = {  # network -> its quantized layers, and those left float
    "Llama": (OF_LLAMA, ["model.embed_tokens", "lm_head"]),
    "Llama, tied": (OF_LLAMA, ["model.embed_tokens"]),
    "Llama, classifier": (OF_LLAMA, ["model.embed_tokens", "score"]),
    "Mistral": (OF_LLAMA, ["model.embed_tokens", "lm_head"]),
    "Qwen2": (OF_LLAMA, ["model.embed_tokens"]),
    "GPT-2": (
        [f"transformer.h.N.{part}" for part in ("attn.c_attn", "attn.c_proj", "mlp.c_fc")]
        + ["transformer.h.N.mlp.c_proj"],
        ["transformer.wte", "transformer.wpe"],
    ),
    "BERT": (OF_BERT, [*BERTS_TABLES, "cls.predictions.transform.dense"]),
    "BERT, classifier": ([*OF_BERT, "bert.pooler.dense"], [*BERTS_TABLES, "classifier"]),
    "ViT": (
        [f"vit.layers.N.attention.{part}_proj" for part in "qkvo"]
        + ["vit.layers.N.mlp.fc1", "vit.layers.N.mlp.fc2"],
        [
            "vit.embeddings.position_embeddings",
            "vit.embeddings.patch_embeddings.projection",
            "classifier",
        ],
    ),
}


@pytest.mark.parametrize("name", builders())
def test_exactly_the_intended_layers_are_quantized(name):
    recorded = {row["name"]: row for row in json.loads(RECORDED.read_text())["rows"]}
    found = row(name, builders()[name]())
    assert found == recorded[name]
    if name in INTENDED:
        assert (found["quantized"], found["float"]) == INTENDED[name]


def test_the_head_is_quantized_only_when_asked_for():
    from binaryrelax.integrations.huggingface import chosen_weights

    model = builders()["Llama, tied"]()
    names = chosen_weights(model, Ternary(), quantize_head=True).names
    assert "lm_head.weight" in names.values()
    assert model.get_input_embeddings().weight in names  # the same parameter
    kept = chosen_weights(model, Ternary(), keep_float="model.layers.0").names.values()
    assert len(kept) == 7 and all(name.startswith("model.layers.1.") for name in kept)


def test_wrapped_models_have_the_same_layers():
    from binaryrelax.integrations.huggingface import chosen_weights

    model = builders()["Llama"]()
    names = chosen_weights(model, Ternary()).names
    assert chosen_weights(torch.compile(model), Ternary()).names == names


def test_gpt2s_layers_have_one_scale_and_are_not_packed():
    from binaryrelax.integrations.huggingface import chosen_weights

    model = builders()["GPT-2"]()
    with pytest.warns(UserWarning, match=r"pack will refuse .*c_attn.*transformers.*Conv1D"):
        chosen_weights(model, Ternary())
    with pytest.raises(ValueError, match=r"is a Conv1D, whose dimension 0 is its input.*PerLayer"):
        chosen_weights(model, Ternary(granularity=PerChannel()))
