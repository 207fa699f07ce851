"""Small texts, and tokens that need nothing installed."""

from pathlib import Path

import numpy as np
import torch

from binaryrelax_lab.language import Corpus, Text, load_corpus

TRAIN = "Anne walked up and down.\nThe Admiral walked with her, as he did every day.\n" * 20
VALIDATION = "The Admiral walked up and down, and Anne with her sister.\r\nÉtienne did not.\n"


def text_folder(folder: Path, **others: str) -> Path:
    """A folder with a text to train on, one to validate with, and others."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in {"train": TRAIN, "val": VALIDATION, **others}.items():
        (folder / f"{name}.txt").write_bytes(text.encode())
    return folder


def bytes_of(folder: Path, **options) -> Corpus:
    """The texts of a folder, a token per byte; the user's own cache is not touched."""
    return load_corpus(folder, vocabulary=256, **{"cache": folder / "cache", **options})


def text_of(tokens, name: str = "some") -> Text:
    """A text of given tokens, each of which stands for one byte."""
    values = torch.from_numpy(np.array(tokens, np.uint16))
    return Text(name, values, len(values), len(values) - 1)
