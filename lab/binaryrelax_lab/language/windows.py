"""Windows of a text: what a network sees of it at once, and the next token at every position."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from binaryrelax_lab.language.corpus import Text

Offsets = np.ndarray[Any, np.dtype[np.int64]]


def training_windows(text: Text, *, count: int, length: int, seed: int, epoch: int) -> Offsets:
    """Where the windows of an epoch begin.

    The text is passed over again and again: each pass cuts it into adjoining windows, from a
    random beginning, and takes them in random order. An epoch is the next `count` of these
    windows, wherever a pass ends. So all tokens are seen equally often, up to one pass and the
    ends of the text, and what an epoch sees depends on `seed` and `epoch` alone.

    Args:
        length: of a window, in tokens that are predicted.

    Raises:
        ValueError: the text is shorter than a window.
    """
    num_tokens = len(text.tokens)
    if num_tokens <= length:
        raise ValueError(
            f"{text.name}.txt has {num_tokens:,} tokens, too few for windows of {length:,} and one "
            "more: bring a longer text"
        )
    per_pass = max(1, (num_tokens - length) // length)
    largest_shift = min(length - 1, num_tokens - 1 - per_pass * length)
    first, end = epoch * count, (epoch + 1) * count
    passes = range(first // per_pass, -(-end // per_pass))
    starts = [_one_pass(per_pass, length, largest_shift, (seed, number)) for number in passes]
    skipped = passes.start * per_pass
    return np.concatenate(starts)[first - skipped : end - skipped]


def _one_pass(count: int, length: int, largest_shift: int, entropy: tuple[int, int]) -> Offsets:
    random = np.random.default_rng(np.random.SeedSequence(entropy))
    shift = random.integers(largest_shift, endpoint=True)
    return shift + length * random.permutation(count).astype(np.int64)


def test_windows(text: Text, length: int) -> tuple[Tensor, Tensor]:
    """Windows in which every token but the first is predicted exactly once.

    Returns:
        Where they begin (num,), and at which of their positions there is a token to predict
        (num, length): everywhere, except behind the end of the text in the last window.
    """
    num_predicted = len(text.tokens) - 1
    offsets = torch.arange(0, num_predicted, length)
    return offsets, offsets[:, None] + torch.arange(length) < num_predicted


class Windows:
    """The tokens of a text on a device, from which windows are taken.

    Nothing here waits for the device, and shapes depend on the number of windows alone, so it can
    be recorded in a CUDA graph.

    Args:
        length: of a window, in tokens that are predicted.
    """

    def __init__(self, text: Text, length: int, device: torch.device) -> None:
        padding = torch.zeros(length, dtype=torch.int32)  # behind the end, for the last window
        # torch cannot index uint16 everywhere.
        self._tokens = torch.cat([text.tokens.to(torch.int32), padding]).to(device)
        self._positions = torch.arange(length + 1, device=device)

    def take(self, offsets: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs and targets, the next tokens, both (len(offsets), length) int64."""
        tokens = self._tokens[offsets[:, None] + self._positions].long()
        return tokens[:, :-1], tokens[:, 1:]


def batches(*rows: Tensor, size: int) -> Iterator[tuple[Tensor, ...]]:
    """Rows of several tensors, `size` at a time."""
    return zip(*(tensor.split(size) for tensor in rows), strict=True)
