"""The tokens of texts on disk, so that they are made once and can travel without the texts.

A folder is named after the number of tokens and the text that the tokenizer was made for. It holds
``tokenizer.json``, a ``.npy`` file of uint16 for each text, and ``corpus.json``, which is written
last and names the others with their digests. Files appear complete; two processes that make the
same tokens write the same bytes.
"""

import hashlib
import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from binaryrelax_lab.files import read_json, write_atomically, write_json
from binaryrelax_lab.language.tokenizer import Tokenizer, Tokens, restored

FORM = 1  # of tokens and of these files; another form has other folders
INDEX_NAME, TOKENIZER_NAME = "corpus.json", "tokenizer.json"


class TokensDamaged(ValueError):
    """A file of tokens is not what was written; it says which."""


@dataclass(frozen=True)
class StoredText:
    """What is known of a text without its tokens.

    Args:
        digest: of the text itself.
        num_bytes: of the text.
        first_bytes: of its first token.
        tokens_digest: of the file that holds its tokens.
    """

    name: str
    digest: str
    num_bytes: int
    first_bytes: int
    tokens_digest: str

    @property
    def file_name(self) -> str:
        return f"{self.name}-{self.digest[:12]}.npy"


def folder_name(vocabulary: int, train_digest: str) -> str:
    """What the folder is called that holds such tokens."""
    return f"tokens{FORM}-{vocabulary}-{train_digest[:12]}"


def folders_in(data: Path, vocabulary: int) -> list[Path]:
    """The folders in `data` with that many tokens."""
    return sorted(path.parent for path in data.glob(f"tokens{FORM}-{vocabulary}-*/{INDEX_NAME}"))


@dataclass(frozen=True)
class TokenFolder:
    """A folder of tokens, in the first of several places that has it or can be written.

    Args:
        name: see `folder_name`.
    """

    name: str
    places: Sequence[Path]

    @property
    def folders(self) -> list[Path]:
        return [place / self.name for place in self.places]

    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer, if it is there."""
        for folder in self.folders:
            if (folder / INDEX_NAME).is_file():
                return _tokenizer(folder)
        return None

    def texts(self) -> dict[str, StoredText]:
        """What is there, by name."""
        found: dict[str, StoredText] = {}
        for folder in reversed(self.folders):
            found |= _index(folder)
        return found

    def read(self, text: StoredText) -> Tokens:
        """The tokens of a text.

        Raises:
            TokensDamaged: their file is not what was written.
        """
        folder = next(f for f in self.folders if _index(f).get(text.name) == text)
        content = _content(folder / text.file_name)
        if hashlib.sha256(content).hexdigest() != text.tokens_digest:
            raise TokensDamaged(f"{folder / text.file_name} is damaged")
        return np.load(io.BytesIO(content), allow_pickle=False)

    def keep(self, texts: Sequence[tuple[StoredText, Tokens]], tokenizer: Tokenizer) -> Path | None:
        """Writes tokens and their tokenizer; None if no place can be written."""
        for folder in self.folders:
            try:
                folder.mkdir(parents=True, exist_ok=True)
                index = _index_for(folder, tokenizer) | {text.name: text for text, _ in texts}
                write_atomically(folder / TOKENIZER_NAME, tokenizer.content.encode())
                for text, tokens in texts:
                    write_atomically(folder / text.file_name, as_file(tokens))
                write_json(folder / INDEX_NAME, {n: asdict(t) for n, t in index.items()})
            except OSError:
                continue
            return folder
        return None


def as_file(tokens: Tokens) -> bytes:
    """The content of a ``.npy`` file."""
    buffer = io.BytesIO()
    np.save(buffer, tokens, allow_pickle=False)
    return buffer.getvalue()


def _index(folder: Path) -> dict[str, StoredText]:
    path = folder / INDEX_NAME
    if not path.is_file():
        return {}
    try:
        return {name: StoredText(**text) for name, text in read_json(path).items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise TokensDamaged(f"{path} is damaged") from error


def _index_for(folder: Path, tokenizer: Tokenizer) -> dict[str, StoredText]:
    """What may stay in a folder: nothing if it is damaged or was made with another tokenizer."""
    try:
        index = _index(folder)
        return index if index and _tokenizer(folder).content == tokenizer.content else {}
    except TokensDamaged:
        return {}


def _tokenizer(folder: Path) -> Tokenizer:
    path = folder / TOKENIZER_NAME
    try:
        return restored(_content(path).decode())
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise TokensDamaged(f"{path} is missing or damaged") from error


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise TokensDamaged(f"{path} cannot be read ({error.strerror or error})") from error
