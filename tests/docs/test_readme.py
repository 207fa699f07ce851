"""README is a front door: one screen, in short sentences. The tests of all pages cover the rest."""

from tools.prose_statistics import LONG, num_words, sentences

from tests.docs.pages import README

MOST_LINES = 130


def test_readme_is_a_front_door():
    assert len(README.read_text().splitlines()) <= MOST_LINES


def test_no_sentence_of_readme_is_long():
    lengths = {sentence: num_words(sentence) for sentence in sentences(README.read_text())}
    assert len(lengths) > 20
    assert not {sentence: n for sentence, n in lengths.items() if n > LONG}
