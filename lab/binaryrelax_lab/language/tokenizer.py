"""How text becomes tokens and text again, to the byte."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from binaryrelax_lab.language.requirements import needed

NUM_BYTES = 256  # the vocabulary of those who read bytes
END_OF_TEXT = "<|endoftext|>"  # token 0, for those who join documents
SMALLEST_VOCABULARY = NUM_BYTES + 1
LARGEST_VOCABULARY = 1 << 16  # tokens are stored in two bytes
_BATCH = 64  # pieces that are encoded at once: one note, and little memory

Tokens = np.ndarray[Any, np.dtype[np.uint16]]


class Tokenizer(ABC):
    """Text to tokens and back.

    Its `content` is all that there is to it: two with the same content do the same.
    """

    vocabulary: int
    content: str

    @abstractmethod
    def encode(self, pieces: Iterable[str]) -> Iterator[Tokens]:
        """The tokens of several pieces of text at a time."""

    @abstractmethod
    def decode(self, tokens: Iterable[int]) -> str:
        """The text; bytes that are no UTF-8 become the replacement character."""

    @abstractmethod
    def num_bytes_of(self, token: int) -> int:
        """How many bytes of text it stands for."""


class Bytes(Tokenizer):
    """A token per byte. It needs nothing installed."""

    vocabulary = NUM_BYTES
    content = "bytes"

    def encode(self, pieces: Iterable[str]) -> Iterator[Tokens]:
        for piece in pieces:
            yield np.frombuffer(piece.encode(), np.uint8).astype(np.uint16)

    def decode(self, tokens: Iterable[int]) -> str:
        return bytes(tokens).decode("utf-8", "replace")

    def num_bytes_of(self, token: int) -> int:
        return 1


class BytePairs(Tokenizer):
    """Byte-level byte-pair encoding, cut into words as GPT-2 does, which llama.cpp knows too.

    All 256 bytes are tokens, so every text can be said and comes back as it was.

    Args:
        content: what Hugging Face's ``tokenizer.json`` holds.
    """

    def __init__(self, content: str) -> None:
        self.content = content
        self.vocabulary = _size(content)

    @cached_property
    def _tokenizer(self) -> Any:
        return needed("tokenizers").Tokenizer.from_str(self.content)

    def encode(self, pieces: Iterable[str]) -> Iterator[Tokens]:
        remaining = iter(pieces)
        while batch := list(islice(remaining, _BATCH)):
            encodings = self._tokenizer.encode_batch_fast(batch, add_special_tokens=False)
            yield np.concatenate([np.array(found.ids, np.uint16) for found in encodings])

    def decode(self, tokens: Iterable[int]) -> str:
        return self._tokenizer.decode([int(t) for t in tokens], skip_special_tokens=False)

    def num_bytes_of(self, token: int) -> int:
        return len(self._tokenizer.id_to_token(token))  # a character stands for each byte


def _size(content: str) -> int:
    """The number of tokens, without the library that made them."""
    model = json.loads(content)
    ids = {token["id"] for token in model["added_tokens"]} | set(model["model"]["vocab"].values())
    return len(ids)


def require_vocabulary(vocabulary: int) -> None:
    """A `ValueError` if no tokenizer has that many tokens."""
    if vocabulary != NUM_BYTES and not SMALLEST_VOCABULARY <= vocabulary <= LARGEST_VOCABULARY:
        raise ValueError(
            f"vocabulary {vocabulary}: choose {NUM_BYTES}, which means bytes, or up to "
            f"{LARGEST_VOCABULARY:,} tokens"
        )


def train_tokenizer(pieces: Iterable[str], vocabulary: int, name: str) -> Tokenizer:
    """The tokenizer of that many tokens that a text gives; the same text gives the same one.

    Args:
        pieces: the text.
        name: what it is called, for the error.

    Raises:
        ValueError: the text is too small for so many tokens.
    """
    require_vocabulary(vocabulary)
    if vocabulary == NUM_BYTES:
        return Bytes()
    tokenizers = needed("tokenizers")
    byte_level = tokenizers.pre_tokenizers.ByteLevel
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = byte_level(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=sorted(byte_level.alphabet()),
        show_progress=False,
    )
    made.train_from_iterator(pieces, trainer)
    if made.get_vocab_size() < vocabulary:
        raise ValueError(
            f"{name}: it is too small for {vocabulary:,} tokens, it gives "
            f"{made.get_vocab_size():,}; choose a smaller vocabulary or a larger text"
        )
    return BytePairs(made.to_str())


def restored(content: str) -> Tokenizer:
    """The tokenizer with that content."""
    return Bytes() if content == Bytes.content else BytePairs(content)


def encoded(
    tokenizer: Tokenizer, pieces: Iterable[str], note: Callable[[int], None] = lambda count: None
) -> Tokens:
    """All tokens of a text; `note` hears how many there are so far."""
    parts, count = [np.empty(0, np.uint16)], 0
    for part in tokenizer.encode(pieces):
        parts.append(part)
        count += len(part)
        note(count)
    return np.concatenate(parts)
