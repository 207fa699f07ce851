"""The texts that a language model learns from and is tested with, as tokens.

To make tokens of a long text takes minutes, so it is done once. They are kept beside the texts or,
where nothing may be written, in the user's cache.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from binaryrelax_lab.language.texts import (
    TRAIN,
    VALIDATION,
    RawText,
    embedded_texts,
    in_order,
    joined,
    no_texts,
    texts_in,
)
from binaryrelax_lab.language.token_folder import (
    StoredText,
    TokenFolder,
    TokensDamaged,
    as_file,
    folder_name,
    folders_in,
)
from binaryrelax_lab.language.tokenizer import (
    Tokenizer,
    Tokens,
    encoded,
    require_vocabulary,
    train_tokenizer,
)

Note = Callable[[str], None]
NOTE_EVERY = 5_000_000  # tokens


@dataclass(frozen=True, eq=False)
class Text:
    """A text as tokens.

    Args:
        tokens: uint16, on the CPU.
        num_bytes: of the text in UTF-8.
        num_predicted_bytes: of all its tokens but the first, which nothing predicts.
    """

    name: str
    tokens: Tensor = field(repr=False)
    num_bytes: int
    num_predicted_bytes: int


@dataclass(frozen=True, eq=False)
class Corpus:
    """Texts to train on and to test with, and the tokenizer made for the first.

    Args:
        others: further texts to test with.
        digest: of the tokenizer and the tokens that a run is trained on and watched with.
    """

    name: str
    tokenizer: Tokenizer = field(repr=False)
    train: Text
    validation: Text
    others: tuple[Text, ...]
    digest: str

    @property
    def vocabulary(self) -> int:
        """The number of different tokens."""
        return self.tokenizer.vocabulary

    def encode(self, text: str) -> Tensor:
        """The tokens of some text, int64."""
        return torch.from_numpy(encoded(self.tokenizer, joined([text])).astype("int64"))

    def decode(self, tokens: Iterable[int] | Tensor) -> str:
        """The text of some tokens; where a character is cut, a replacement stands."""
        return self.tokenizer.decode(int(token) for token in tokens)


def load_corpus(
    data: Path | None, *, vocabulary: int, note: Note = lambda line: None, cache: Path | None = None
) -> Corpus:
    """The texts of a folder as tokens, made now or earlier.

    Args:
        data: the folder; the embedded novels if not given. It may hold tokens alone.
        vocabulary: how many different tokens; 256 are the bytes themselves.
        note: hears what takes long, in lines.
        cache: where tokens go if the folder cannot be written; the user's own if not given.

    Raises:
        CorpusNotFound: there are no texts, nor tokens made of them.
        ValueError: a text is empty, not UTF-8 or too small; or tokens are damaged and the texts
            are not there to make them again.
        LanguageExtraMissing: tokens must be made, and the library for it is not installed.

    Examples:
        >>> from binaryrelax_lab.language import load_corpus
        >>> corpus = load_corpus(None, vocabulary=256)  # embedded; a token per byte
        >>> len(corpus.train.tokens), len(corpus.validation.tokens)
        (463286, 60590)
    """
    require_vocabulary(vocabulary)
    if data is None:
        return _corpus("austen", *_made("austen", embedded_texts(), vocabulary, (), note))
    name, texts = data.resolve().name, texts_in(data)
    if not texts:
        return _corpus(name, *_brought(data, vocabulary))
    places = (data, cache or _users_cache())
    return _corpus(name, *_made(name, texts, vocabulary, places, note))


def _users_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "binaryrelax"


def _corpus(name: str, tokenizer: Tokenizer, texts: list[Text]) -> Corpus:
    train, validation, *others = texts
    digest = hashlib.sha256(tokenizer.content.encode())
    for text in (train, validation):
        digest.update(hashlib.sha256(text.tokens.numpy().tobytes()).digest())
    return Corpus(name, tokenizer, train, validation, tuple(others), digest.hexdigest())


def _brought(data: Path, vocabulary: int) -> tuple[Tokenizer, list[Text]]:
    """Tokens whose texts lie elsewhere."""
    folders = folders_in(data, vocabulary)
    if not folders:
        raise no_texts(data, "train.txt")
    if len(folders) > 1:
        names = ", ".join(folder.name for folder in folders)
        raise ValueError(f"{data} holds the tokens of several texts ({names}): leave one of them")
    folder = TokenFolder(folders[0].name, (data,))
    try:
        stored = folder.texts()
        tokenizer = folder.tokenizer()
        assert tokenizer is not None, "its index is there"
        if not {TRAIN, VALIDATION} <= stored.keys():
            raise TokensDamaged(f"{folder.name} in {data} lacks the training or validation text")
        texts = [_as_text(stored[name], folder.read(stored[name])) for name in in_order(stored)]
    except TokensDamaged as error:
        raise ValueError(f"{error}, and the texts are not there: copy it again") from error
    return tokenizer, texts


def _made(
    name: str, texts: list[RawText], vocabulary: int, places: tuple[Path, ...], note: Note
) -> tuple[Tokenizer, list[Text]]:
    """Tokens that were kept earlier; those that are missing are made and kept."""
    digests = {text.name: text.digest() for text in texts}
    folder = TokenFolder(folder_name(vocabulary, digests[TRAIN]), places)
    tokenizer, found = _kept(folder, digests, note)
    if tokenizer is None:
        note(f"{texts[0].place}: choosing {vocabulary:,} tokens")
        tokenizer = train_tokenizer(texts[0].pieces(), vocabulary, texts[0].place)
    missing = [text for text in texts if text.name not in found]
    new = {text.name: _tokens_of(text, digests[text.name], tokenizer, note) for text in missing}
    if new and places and folder.keep(list(new.values()), tokenizer) is None:
        note(f"the tokens of {name} cannot be kept: they will be made again next time")
    made = found | new
    return tokenizer, [_as_text(*made[text.name]) for text in texts]


def _kept(
    folder: TokenFolder, digests: dict[str, str], note: Note
) -> tuple[Tokenizer | None, dict[str, tuple[StoredText, Tokens]]]:
    """What is there and undamaged."""
    found = {}
    try:
        tokenizer = folder.tokenizer()
        for name, stored in folder.texts().items():
            if digests.get(name) == stored.digest:
                found[name] = (stored, folder.read(stored))
    except TokensDamaged as error:
        note(f"{error}: its tokens are made again")
        return None, {}
    return tokenizer, found


def _tokens_of(
    text: RawText, digest: str, tokenizer: Tokenizer, note: Note
) -> tuple[StoredText, Tokens]:
    num_bytes, noted = 0, 0

    def counted() -> Iterator[str]:
        nonlocal num_bytes
        for piece in text.pieces():
            num_bytes += len(piece.encode())
            yield piece

    def progress(count: int) -> None:
        nonlocal noted
        if count - noted >= NOTE_EVERY:
            noted = count
            note(f"{text.place}: {count:,} tokens so far")

    tokens = encoded(tokenizer, counted(), progress)
    if len(tokens) < 2:
        raise ValueError(f"{text.place} is empty or too small: it must have two tokens at least")
    stored = StoredText(
        name=text.name,
        digest=digest,
        num_bytes=num_bytes,
        first_bytes=tokenizer.num_bytes_of(int(tokens[0])),
        tokens_digest=hashlib.sha256(as_file(tokens)).hexdigest(),
    )
    return stored, tokens


def _as_text(stored: StoredText, tokens: Tokens) -> Text:
    predicted = stored.num_bytes - stored.first_bytes
    return Text(stored.name, torch.from_numpy(tokens), stored.num_bytes, predicted)
