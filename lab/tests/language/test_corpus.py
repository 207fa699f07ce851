import json
import shutil
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from lab.tests.support.command import ENVIRONMENT, ROOT, wait_until
from lab.tests.support.errors import one_line
from lab.tests.support.texts import TRAIN, VALIDATION, bytes_of, text_folder

from binaryrelax_lab.files import digest_of
from binaryrelax_lab.language import CorpusNotFound, LanguageExtraMissing, load_corpus
from binaryrelax_lab.language.novels import EMBEDDED_FOLDER, embedded_text
from binaryrelax_lab.language.texts import PIECE_CHARACTERS


def kept_in(folder):
    """The one folder of tokens in it."""
    [kept] = folder.glob("tokens*")
    return kept


def same(first, second):
    texts = [(c.train, c.validation, *c.others) for c in (first, second)]
    return (
        first.digest == second.digest
        and first.vocabulary == second.vocabulary
        and all(
            (a.name, a.num_bytes, a.num_predicted_bytes)
            == (b.name, b.num_bytes, b.num_predicted_bytes)
            and torch.equal(a.tokens.int(), b.tokens.int())
            for a, b in zip(*texts, strict=True)
        )
    )


def test_the_embedded_novels_need_nothing_installed():
    corpus = load_corpus(None, vocabulary=256)
    assert (corpus.name, corpus.vocabulary, corpus.others) == ("austen", 256, ())
    assert corpus.decode(corpus.train.tokens[:30]).startswith("Chapter 1\nSir Walter Elliot")
    assert corpus.decode(corpus.validation.tokens).encode() == embedded_text("val")


def test_the_embedded_novels_are_small_and_of_the_public_domain():
    assert sum(path.stat().st_size for path in EMBEDDED_FOLDER.iterdir()) < 200_000
    assert "public domain" in (EMBEDDED_FOLDER / "LICENSE-austen.txt").read_text()
    for name in ("train", "val"):
        assert b"gutenberg" not in embedded_text(name).lower(), "their name needs their licence"


@pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: path.write_bytes(b"")])
def test_a_damaged_novel_is_refused_with_the_way_out(tmp_path, damage):
    shutil.copytree(EMBEDDED_FOLDER, tmp_path, dirs_exist_ok=True)
    damage(tmp_path / "val.txt.xz")
    with pytest.raises(ValueError, match="pip install") as error:
        embedded_text("val", tmp_path)
    assert "val.txt.xz" in one_line(error)


def test_a_folder_of_texts(tmp_path):
    corpus = bytes_of(text_folder(tmp_path / "mine", test="Yes.", another="No.\n"))
    assert corpus.name == "mine"
    assert [text.name for text in corpus.others] == ["another", "test"]
    assert corpus.decode(corpus.validation.tokens) == VALIDATION, "ends of lines too"
    assert corpus.validation.num_bytes == len(VALIDATION.encode())
    assert corpus.validation.num_predicted_bytes == corpus.validation.num_bytes - 1
    assert corpus.train.tokens.dtype == torch.uint16
    assert corpus.encode("É").tolist() == list("É".encode())


def test_the_digest_is_of_what_a_run_is_trained_on_and_watched_with(tmp_path):
    digest = bytes_of(text_folder(tmp_path / "a")).digest
    assert bytes_of(text_folder(tmp_path / "b", test="more")).digest == digest
    assert bytes_of(text_folder(tmp_path / "c", train=TRAIN + "!")).digest != digest
    assert bytes_of(text_folder(tmp_path / "d", val="something else")).digest != digest


def test_a_text_of_one_long_line_comes_back_whole(tmp_path):
    long = "word " * PIECE_CHARACTERS + "Ω" * PIECE_CHARACTERS
    corpus = bytes_of(text_folder(tmp_path, train=long))
    assert corpus.decode(corpus.train.tokens) == long


def test_tokens_are_kept_and_travel_without_the_texts(tmp_path):
    made = bytes_of(text_folder(tmp_path / "here", test="Yes."))
    notes = []
    assert same(bytes_of(tmp_path / "here", note=notes.append), made)
    assert not notes, "nothing is made again"
    there = tmp_path / "there" / "here"
    shutil.copytree(kept_in(tmp_path / "here"), there / kept_in(tmp_path / "here").name)
    assert same(bytes_of(there), made)


def test_a_text_that_changes_or_comes_later_is_made_into_tokens(tmp_path):
    bytes_of(text_folder(tmp_path))
    corpus = bytes_of(text_folder(tmp_path, val="Changed.", test="Later."))
    assert corpus.decode(corpus.validation.tokens) == "Changed."
    assert corpus.decode(corpus.others[0].tokens) == "Later."


def test_where_nothing_can_be_written_tokens_go_to_the_cache(tmp_path):
    made = bytes_of(text_folder(tmp_path / "a"))
    text_folder(tmp_path / "b")
    (tmp_path / "b" / kept_in(tmp_path / "a").name).write_text("a file where a folder would be")
    assert same(bytes_of(tmp_path / "b", cache=tmp_path / "cache"), made)
    assert kept_in(tmp_path / "cache").is_dir()
    notes = []
    assert same(bytes_of(tmp_path / "b", cache=tmp_path / "cache", note=notes.append), made)
    assert not notes
    nowhere = tmp_path / "a" / "train.txt"
    assert same(bytes_of(tmp_path / "b", cache=nowhere, note=notes.append), made)
    assert "cannot be kept" in notes[-1]


@pytest.mark.parametrize(
    "damage",
    [
        lambda kept: next(kept.glob("train-*.npy")).write_bytes(b"short"),
        lambda kept: next(kept.glob("val-*.npy")).unlink(),
        lambda kept: (kept / "tokenizer.json").unlink(),
        lambda kept: (kept / "tokenizer.json").write_text("{}"),
        lambda kept: (kept / "corpus.json").write_text("{"),
        lambda kept: (kept / "corpus.json").write_text('{"train": {"name": "train"}}'),
    ],
)
def test_damaged_tokens_are_made_again_or_refused(tmp_path, damage):
    made = bytes_of(text_folder(tmp_path))
    damage(kept_in(tmp_path))
    notes = []
    assert same(bytes_of(tmp_path, note=notes.append), made)
    assert "made again" in notes[0]
    damage(kept_in(tmp_path))
    for path in tmp_path.glob("*.txt"):
        path.unlink()
    with pytest.raises(ValueError, match="again") as error:
        bytes_of(tmp_path)
    assert kept_in(tmp_path).name in one_line(error)


LOAD = """
import sys
from pathlib import Path
from binaryrelax_lab.language import load_corpus
print(load_corpus(Path(sys.argv[1]), vocabulary=256).digest)
"""


def test_a_process_that_is_killed_does_not_disturb_another(tmp_path):
    text_folder(tmp_path / "alone", train=TRAIN * 5000)
    text_folder(tmp_path / "shared", train=TRAIN * 5000)
    killed, other = (
        subprocess.Popen(
            [sys.executable, "-c", LOAD, tmp_path / "shared"],
            env=ENVIRONMENT,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    )
    wait_until(lambda: any((tmp_path / "shared").glob("tokens*")), killed)
    killed.kill()
    killed.communicate()
    made = bytes_of(tmp_path / "alone")
    assert other.communicate(timeout=120)[0].strip() == made.digest
    assert same(bytes_of(tmp_path / "shared"), made)


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ({"train": b"ab\xffcd", "val": b"yes"}, "train.txt is not UTF-8"),
        ({"train": TRAIN.encode(), "val": "fünf".encode("latin-1")}, "val.txt is not UTF-8"),
        ({"train": b"", "val": b"yes"}, "train.txt is empty"),
        ({"train": b"yes", "val": b"."}, "val.txt is empty or too small"),
    ],
)
def test_unfit_texts_are_refused(tmp_path, texts, words):
    for name, content in texts.items():
        (tmp_path / f"{name}.txt").write_bytes(content)
    with pytest.raises(ValueError, match=words) as error:
        bytes_of(tmp_path)
    assert str(tmp_path) in one_line(error)


@pytest.mark.parametrize(
    ("texts", "missing"), [((), "train.txt"), (("train",), "val.txt"), (("val",), "train.txt")]
)
def test_missing_texts_are_named(tmp_path, texts, missing):
    for name in texts:
        (tmp_path / f"{name}.txt").write_text("Yes.")
    with pytest.raises(CorpusNotFound, match=f"there is no {missing}") as error:
        bytes_of(tmp_path)
    assert "val.txt" in one_line(error) and str(tmp_path) in one_line(error)


def test_a_folder_must_be_a_folder(tmp_path):
    with pytest.raises(CorpusNotFound, match="not a folder") as error:
        bytes_of(tmp_path / "nowhere")
    assert "train.txt" in one_line(error)


def test_tokens_of_several_texts_are_not_chosen_from(tmp_path):
    for train in (TRAIN, TRAIN + "!"):
        bytes_of(text_folder(tmp_path, train=train))
    for path in tmp_path.glob("*.txt"):
        path.unlink()
    with pytest.raises(ValueError, match="several texts") as error:
        bytes_of(tmp_path)
    assert one_line(error).count("tokens1-256-") == 2


@pytest.mark.parametrize("vocabulary", [0, 255, 65537])
def test_impossible_vocabularies_are_refused(vocabulary):
    with pytest.raises(ValueError, match=f"vocabulary {vocabulary}") as error:
        load_corpus(None, vocabulary=vocabulary)
    one_line(error)


def test_byte_pairs_that_were_made_elsewhere_are_read_with_nothing_installed(tmp_path, monkeypatch):
    kept = kept_in_of_byte_pairs(tmp_path)
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    corpus = load_corpus(tmp_path, vocabulary=257)
    assert corpus.vocabulary == 257
    assert corpus.train.tokens.tolist() == [256, 10, 256]
    with pytest.raises(LanguageExtraMissing, match="pip install") as error:
        corpus.decode([1])
    assert "tokenizers" in one_line(error)
    assert kept.is_dir()


def kept_in_of_byte_pairs(folder):
    """Tokens of a tokenizer with 257 of them, written by hand."""
    bytes_of(text_folder(folder))
    kept = kept_in(folder)
    kept = kept.rename(kept.with_name(kept.name.replace("-256-", "-257-")))
    vocab = {"<|endoftext|>": 0, **{f"token {i}": i for i in range(1, 257)}}
    model = {"added_tokens": [{"id": 0}], "model": {"vocab": vocab}}
    (kept / "tokenizer.json").write_text(json.dumps(model))
    index = json.loads((kept / "corpus.json").read_text())
    for text in index.values():
        path = kept / f"{text['name']}-{text['digest'][:12]}.npy"
        np.save(path, np.array([256, 10, 256], np.uint16))
        text["tokens_digest"] = digest_of(path)
    (kept / "corpus.json").write_text(json.dumps(index))
    for path in folder.glob("*.txt"):
        path.unlink()
    return kept


@pytest.mark.skipif(find_spec("tokenizers") is not None, reason="tokenizers is installed")
def test_what_is_not_installed_is_named():
    with pytest.raises(LanguageExtraMissing, match=r"\[language\]") as error:
        load_corpus(None, vocabulary=512)
    one_line(error)
