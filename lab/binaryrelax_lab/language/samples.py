"""Text that a network goes on with."""

from typing import Any

import torch
from torch import Tensor

from binaryrelax_lab.language.corpus import Corpus


@torch.no_grad()
def continue_text(
    network: Any,
    corpus: Corpus,
    prompt: str,
    *,
    num_tokens: int,
    temperature: float = 1.0,
    seed: int = 0,
) -> str:
    """What the network says after `prompt`, without it.

    Args:
        network: a network of transformers; it sees as much as its context holds.
        temperature: 0 takes the likeliest token each time.
        seed: decides all that is random.

    Raises:
        ValueError: the prompt is empty, or the temperature negative.
    """
    if not prompt or temperature < 0:
        raise ValueError(
            f"continue_text(prompt={prompt!r}, temperature={temperature}): the prompt must not be "
            "empty, nor the temperature negative"
        )
    context = int(network.config.max_position_embeddings)
    device = next(network.parameters()).device
    random = torch.Generator().manual_seed(seed)
    prompt_tokens = corpus.encode(prompt)
    tokens, was_training = prompt_tokens.to(device), network.training
    network.eval()
    for _ in range(num_tokens):
        logits = network(tokens[None, -context:]).logits[0, -1].float().cpu()
        chosen = _choose(logits, temperature, random)
        tokens = torch.cat([tokens, chosen.to(device)])
    network.train(was_training)
    return corpus.decode(tokens[len(prompt_tokens) :])


def _choose(logits: Tensor, temperature: float, random: torch.Generator) -> Tensor:
    """The next token, (1,)."""
    if temperature == 0:
        return logits.argmax(keepdim=True)
    return torch.multinomial((logits / temperature).softmax(0), 1, generator=random)
