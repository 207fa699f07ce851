"""How well a network predicts a text."""

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from binaryrelax_lab.language.corpus import Text
from binaryrelax_lab.language.windows import Windows, batches, test_windows
from binaryrelax_lab.results import perplexity_of


@dataclass(frozen=True)
class TextLoss:
    """The loss on a text, every token of which but the first has been predicted once.

    Args:
        nats: of all tokens together.
        num_bytes: of the text that was predicted.
    """

    nats: float
    num_tokens: int
    num_bytes: int

    @property
    def per_token(self) -> float:
        """The mean cross-entropy, in nats."""
        return self.nats / self.num_tokens

    @property
    def perplexity(self) -> float:
        """Among how many equally likely tokens the network would be as unsure."""
        return perplexity_of(self.per_token)

    @property
    def bits_per_byte(self) -> float:
        """The loss in a unit that does not depend on the tokens."""
        return self.nats / math.log(2) / self.num_bytes


def token_losses(logits: Tensor, targets: Tensor) -> Tensor:
    """The loss at each position, in nats, float32; logits (..., vocabulary), targets (...)."""
    flat = logits.float().flatten(0, -2)
    return cross_entropy(flat, targets.flatten(), reduction="none").view_as(targets)


@torch.no_grad()
def losses(
    network: nn.Module,
    text: Text,
    *,
    length: int,
    batch_size: int = 16,
    device: torch.device = torch.device("cpu"),  # noqa: B008 (a device is immutable)
    autocast: AbstractContextManager[None] | None = None,
) -> TextLoss:
    """The loss of a network on a text.

    The text is cut into adjoining windows; at the start of each the network knows nothing of what
    stood before, so longer windows give smaller losses.

    Args:
        network: gives logits, as ``transformers``' networks do, of tokens (batch, length).
        length: of the windows.
        autocast: the context of forward passes.
    """
    windows = Windows(text, length, device)
    total = torch.zeros((), dtype=torch.float64, device=device)
    was_training = network.training
    network.eval()
    for offsets, mask in batches(*test_windows(text, length), size=batch_size):
        inputs, targets = windows.take(offsets.to(device))
        with autocast or nullcontext():
            logits = network(inputs).logits
        total += token_losses(logits, targets).double().mul(mask.to(device)).sum()
    network.train(was_training)
    return TextLoss(float(total), len(text.tokens) - 1, text.num_predicted_bytes)
