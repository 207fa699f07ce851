import math

import numpy as np
import pytest
from lab.tests.support.texts import text_of

from binaryrelax_lab.language import Bigrams, load_corpus

EVERY = np.arange(7)


def test_probabilities_add_up_to_one_after_every_token():
    random = np.random.default_rng(0)
    bigrams = Bigrams(random.integers(5, size=40), 7)  # 5 and 6 are never seen
    for before in EVERY:
        shares = bigrams.probabilities(np.full(7, before), EVERY)
        assert shares.sum() == pytest.approx(1)
        assert shares.min() > 0


def test_the_formula_by_hand():
    """Pairs 01 (twice), 10, 12 (once each): d = 2 / (2 + 2 * 1)."""
    bigrams = Bigrams(np.array([0, 1, 0, 1, 2]), 3)
    backoff = np.array([1.5, 1.5, 1.5]) / 4.5  # each token follows one other
    [once] = bigrams.probabilities(np.array([1]), np.array([2]))
    assert once == pytest.approx((1 - 0.5) / 2 + 0.5 * 2 / 2 * backoff[2])
    [never] = bigrams.probabilities(np.array([0]), np.array([2]))
    assert never == pytest.approx(0.5 * 1 / 2 * backoff[2])
    [after_unseen] = bigrams.probabilities(np.array([2]), np.array([1]))
    assert after_unseen == pytest.approx(backoff[1])


def test_a_chain_is_predicted_as_well_as_can_be():
    random = np.random.default_rng(1)
    steps = random.integers(1, 3, size=60_000)  # one of two successors: 1 bit
    chain = text_of(np.cumsum(steps) % 50)
    assert Bigrams(chain.tokens.numpy(), 50).loss(chain) == pytest.approx(math.log(2), abs=0.02)


def test_more_tokens_make_better_counts():
    corpus = load_corpus(None, vocabulary=256)
    few, all_of_them = (
        Bigrams(corpus.train.tokens[:count].numpy(), 256).loss(corpus.validation)
        for count in (20_000, None)
    )
    single = np.bincount(corpus.train.tokens.numpy(), minlength=256) + 1
    unigram = -np.log(single / single.sum())[corpus.validation.tokens.numpy()[1:]].mean()
    assert all_of_them < few < unigram
