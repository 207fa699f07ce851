"""Networks of Hugging Face's transformers, tiny and with random weights: nothing is downloaded.

transformers is imported when a network is built: whoever only lists them need not have it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from tests.peers.network import Inputs, Network

TOKENS = 97  # no multiple of anything that kernels like
LENGTH = 11


def networks() -> list[Network]:
    """Six families; Llama with its embedding tied to its last layer and with one of its own."""
    return [
        _network("Llama", partial(_llama, tied=False), _tokens, num_tokens=6),
        _network("Llama, tied", partial(_llama, tied=True), _tokens, num_tokens=6),
        _network("GPT-2", _gpt2, _tokens, num_tokens=6),
        _network("BERT", _bert, _tokens),
        _network("T5", _t5, _tokens_twice, num_tokens=6),
        _network("CLIP", _clip, _tokens_and_image),
        _network("ViT", _vit, _image),
    ]


def _network(
    name: str, make: Callable[[], nn.Module], make_inputs: Callable[[], Inputs], num_tokens: int = 0
) -> Network:
    family = name.partition(",")[0]
    return Network(name, family, "transformers", make, make_inputs, num_tokens)


def _llama(tied: bool) -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=TOKENS, hidden_size=64, intermediate_size=112, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=tied,
        pad_token_id=0, bos_token_id=1, eos_token_id=None,
    )  # fmt: skip
    return LlamaForCausalLM(config)


def _gpt2() -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=TOKENS, n_positions=32, n_embd=64, n_layer=2, n_head=4,
        pad_token_id=0, bos_token_id=1, eos_token_id=None,
    )  # fmt: skip
    return GPT2LMHeadModel(config)


def _bert() -> nn.Module:
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        vocab_size=TOKENS, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=112, max_position_embeddings=32,
    )  # fmt: skip
    return BertForMaskedLM(config)


def _t5() -> nn.Module:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        vocab_size=TOKENS, d_model=64, d_kv=16, d_ff=112, num_layers=2, num_heads=4,
        pad_token_id=0, eos_token_id=None, decoder_start_token_id=0,
    )  # fmt: skip
    return T5ForConditionalGeneration(config)


def _clip() -> nn.Module:
    from transformers import CLIPConfig, CLIPModel

    sizes = {
        "hidden_size": 64, "intermediate_size": 112, "num_hidden_layers": 2,
        "num_attention_heads": 4,
    }  # fmt: skip
    config = CLIPConfig(
        text_config={**sizes, "vocab_size": TOKENS, "bos_token_id": 1, "eos_token_id": 2},
        vision_config={**sizes, "image_size": 32, "patch_size": 8},
        projection_dim=48,
    )
    return CLIPModel(config)


def _vit() -> nn.Module:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=112,
        image_size=32, patch_size=8, num_labels=10,
    )  # fmt: skip
    return ViTForImageClassification(config)


def _tokens() -> Inputs:
    return {"input_ids": _random_tokens(seed=0)}


def _tokens_twice() -> Inputs:
    return {"input_ids": _random_tokens(seed=0), "decoder_input_ids": _random_tokens(seed=1)}


def _tokens_and_image() -> Inputs:
    return {**_tokens(), **_image()}


def _image() -> Inputs:
    generator = torch.Generator().manual_seed(0)
    return {"pixel_values": torch.randn(2, 3, 32, 32, generator=generator)}


def _random_tokens(seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(3, TOKENS, (2, LENGTH), generator=generator)
