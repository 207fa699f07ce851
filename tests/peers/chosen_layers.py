"""Which layers of networks of transformers are quantized, as lists of names."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from torch import nn

from binaryrelax import Ternary
from tests.peers.transformers_networks import TOKENS, networks

SMALL = {
    "vocab_size": TOKENS, "hidden_size": 64, "intermediate_size": 112, "num_hidden_layers": 2,
    "num_attention_heads": 4,
}  # fmt: skip
DECODER = {**SMALL, "num_key_value_heads": 2, "pad_token_id": 0}


def builders() -> dict[str, Callable[[], nn.Module]]:
    """Language models, and others whose head is a classifier; all with random weights."""
    compared = {network.name: network.make for network in networks()}
    return {
        "Llama": compared["Llama"],
        "Llama, tied": compared["Llama, tied"],
        "Llama, classifier": _classifying_llama,
        "Mistral": _mistral,
        "Qwen2": _qwen2,
        "GPT-2": compared["GPT-2"],
        "BERT": compared["BERT"],
        "BERT, classifier": _classifying_bert,
        "T5": compared["T5"],
        "ViT": compared["ViT"],
    }


def row(name: str, model: nn.Module) -> dict[str, Any]:
    """The layers whose weights have rows and columns: those quantized, and those left float."""
    from binaryrelax.integrations.huggingface import chosen_weights

    with warnings.catch_warnings():  # they name what is in the row, too
        warnings.simplefilter("ignore")
        weights = chosen_weights(model, Ternary())
    matrices = {n: p for n, p in model.named_parameters() if sum(size > 1 for size in p.shape) > 1}
    left = [name for name, matrix in matrices.items() if matrix not in weights]
    return {
        "name": name,
        "library": f"transformers {version('transformers')}",
        "quantized": numbered(list(weights.names.values())),
        "float": numbered(left),
        "weights": sum(parameter.numel() for parameter in model.parameters()),
        "quantized_weights": sum(weight.numel() for weight in weights),
    }


def numbered(names: list[str]) -> list[str]:
    """The names without ".weight", those of equal layers as one with N for their number."""
    plain = (re.sub(r"\.\d+(?=\.)", ".N", name).removesuffix(".weight") for name in names)
    return list(dict.fromkeys(plain))


def _classifying_llama() -> nn.Module:
    from transformers import LlamaConfig, LlamaForSequenceClassification

    return LlamaForSequenceClassification(LlamaConfig(**DECODER))


def _mistral() -> nn.Module:
    from transformers import MistralConfig, MistralForCausalLM

    return MistralForCausalLM(MistralConfig(**DECODER))


def _qwen2() -> nn.Module:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    return Qwen2ForCausalLM(Qwen2Config(**DECODER, tie_word_embeddings=True))


def _classifying_bert() -> nn.Module:
    from transformers import BertConfig, BertForSequenceClassification

    return BertForSequenceClassification(BertConfig(**SMALL))
