"""The language models: `LlamaForCausalLM` of transformers, small.

Widths are multiples of 256, the length of llama.cpp's ternary blocks. The embedding is also the
head: both stay float, and a network of a few million weights should not spend half of them there.
"""

import importlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from binaryrelax import Quantizer, SelectedWeights, select_weights
from binaryrelax_lab.language.requirements import needed, quiet_torchao
from binaryrelax_lab.language.tokenizer import NUM_BYTES

HEAD_WIDTH = 64
# torch's attention under a name for which transformers makes no mask: windows have no padding, and
# with a mask, which it would make whenever a model is compiled, the fast kernels cannot be used.
CAUSAL = "causal_sdpa"


@dataclass(frozen=True)
class LlamaSize:
    """What makes a Llama large or small."""

    width: int
    num_layers: int
    inner_width: int  # of the MLP


SIZES = {
    "llama-small": LlamaSize(width=256, num_layers=6, inner_width=1024),
    "llama-base": LlamaSize(width=512, num_layers=8, inner_width=1280),
}


def build_llama(size: str, vocabulary: int, context: int) -> Any:
    """A `LlamaForCausalLM` with random weights from torch's generator.

    Args:
        size: one of ``SIZES``.
        context: the longest window, in tokens.

    Raises:
        LanguageExtraMissing: transformers is not installed.
        ValueError: there is no such size.
    """
    if size not in SIZES:
        raise ValueError(f"no language model is called {size!r}; there are: {', '.join(SIZES)}")
    with quiet_torchao():  # which transformers imports where it is installed
        return _built(needed("transformers"), SIZES[size], vocabulary, context)


def weights_of_layers(
    llama: Any, quantizer: Quantizer, keep_float: Iterable[str] = ()
) -> SelectedWeights:
    """All matrices but embedding and head, which are found by what they are."""
    ends = {id(llama.get_input_embeddings()), id(llama.get_output_embeddings())}
    names = tuple(name for name, module in llama.named_modules() if id(module) in ends)
    return select_weights(llama, quantizer, keep_float=(*names, *keep_float))


def _built(transformers: Any, size: LlamaSize, vocabulary: int, context: int) -> Any:
    attention = importlib.import_module("transformers.integrations.sdpa_attention")
    transformers.AttentionInterface.register(CAUSAL, attention.sdpa_attention_forward)
    config = transformers.LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=size.width,
        intermediate_size=size.inner_width,
        num_hidden_layers=size.num_layers,
        num_attention_heads=size.width // HEAD_WIDTH,
        max_position_embeddings=context,
        tie_word_embeddings=True,
        use_cache=False,
        attn_implementation=CAUSAL,
        bos_token_id=None,
        eos_token_id=None if vocabulary == NUM_BYTES else 0,
        pad_token_id=None,
    )
    return transformers.LlamaForCausalLM(config)
