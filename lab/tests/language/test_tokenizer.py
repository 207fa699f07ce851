"""Byte pairs, made by the real library."""

import os
import subprocess
import sys

import pytest
from lab.tests.support.command import ROOT
from lab.tests.support.errors import one_line
from lab.tests.support.texts import text_folder

from binaryrelax_lab.language import Bigrams, load_corpus
from binaryrelax_lab.language.novels import embedded_text

pytestmark = pytest.mark.peers


def test_every_text_comes_back_to_the_byte(tmp_path):
    strange = "tab\t nbsp\xa0 \r\n\n  Ω≈ç 🙂 <|endoftext|> \x00 end"
    folder = text_folder(tmp_path, train=embedded_text("train").decode(), test=strange)
    corpus = load_corpus(folder, vocabulary=600, cache=tmp_path)
    assert corpus.vocabulary == 600
    assert corpus.decode(corpus.train.tokens).encode() == embedded_text("train")
    assert corpus.decode(corpus.others[0].tokens) == strange
    assert corpus.train.num_bytes == len(embedded_text("train"))
    first = corpus.decode(corpus.train.tokens[:1]).encode()
    assert corpus.train.num_predicted_bytes == corpus.train.num_bytes - len(first)
    assert corpus.decode(corpus.encode("Anne was there")) == "Anne was there"
    again = load_corpus(folder, vocabulary=600, cache=tmp_path)
    assert again.digest == corpus.digest


def test_more_tokens_make_a_shorter_text():
    lengths = [len(load_corpus(None, vocabulary=v).train.tokens) for v in (257, 512, 2048)]
    assert lengths[0] > 1.5 * lengths[1] > 2 * lengths[2]


def test_bigrams_of_longer_tokens_say_more_per_byte():
    def bits_per_byte(vocabulary):
        corpus = load_corpus(None, vocabulary=vocabulary)
        nats = Bigrams(corpus.train.tokens.numpy(), vocabulary).loss(corpus.validation)
        return nats * len(corpus.validation.tokens) / corpus.validation.num_bytes

    assert bits_per_byte(1024) < bits_per_byte(256)


@pytest.mark.parametrize("threads", ["1", "2"])
def test_the_same_text_gives_the_same_tokens(threads):
    code = (
        "from binaryrelax_lab.language import load_corpus\n"
        "print(load_corpus(None, vocabulary=1000).digest)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "RAYON_NUM_THREADS": threads},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == load_corpus(None, vocabulary=1000).digest


def test_a_text_too_small_for_so_many_tokens_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"train.txt: it is too small for 4,096 tokens") as error:
        load_corpus(text_folder(tmp_path), vocabulary=4096, cache=tmp_path)
    one_line(error)
