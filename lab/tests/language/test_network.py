"""Small Llamas, built by the real library."""

from dataclasses import replace

import pytest
import torch
from lab.tests.support.errors import one_line

from binaryrelax import Ternary, select_weights
from binaryrelax_lab.language import SIZES, build_llama, continue_text, load_corpus, losses

pytestmark = pytest.mark.peers


@pytest.fixture(scope="module")
def corpus():
    return load_corpus(None, vocabulary=256)


@pytest.fixture
def network(corpus):
    torch.manual_seed(0)
    return build_llama("llama-small", corpus.vocabulary, context=32)


@pytest.mark.parametrize(
    ("size", "vocabulary", "millions"), [("llama-small", 4096, 7.3), ("llama-base", 8192, 28.3)]
)
def test_sizes(size, vocabulary, millions):
    network = build_llama(size, vocabulary, context=512)
    assert sum(p.numel() for p in network.parameters()) / 1e6 == pytest.approx(millions, abs=0.1)
    assert all(p.dtype == torch.float32 for p in network.parameters())
    weights = select_weights(network, Ternary(), keep_float=("lm_head",))
    assert len(weights) == 7 * SIZES[size].num_layers
    assert all(weight.shape[1] % 256 == 0 for weight in weights)


def test_first_weights_depend_on_the_seed_alone(network):
    torch.manual_seed(0)
    again = build_llama("llama-small", 256, context=32).state_dict()
    assert all(torch.equal(again[name], value) for name, value in network.state_dict().items())
    assert network.lm_head.weight is network.model.embed_tokens.weight


def test_an_unknown_size_is_refused():
    with pytest.raises(ValueError, match="llama-small, llama-base") as error:
        build_llama("llama-large", 256, 32)
    one_line(error)


def test_a_network_with_random_weights_knows_nothing(network, corpus):
    few = replace(corpus.validation, tokens=corpus.validation.tokens[:513], num_predicted_bytes=512)
    loss = losses(network, few, length=32)
    assert loss.bits_per_byte == pytest.approx(8, abs=0.3)


def test_a_network_never_sees_what_it_predicts(network, corpus):
    tokens = corpus.validation.tokens[:20].long()
    changed = tokens.clone()
    changed[10:] = 7
    with torch.no_grad():
        before, after = network(tokens[None]).logits, network(changed[None]).logits
    assert torch.equal(before[0, :10], after[0, :10])
    assert not torch.equal(before[0, 10:], after[0, 10:])


def test_text_goes_on_as_seed_and_temperature_say(network, corpus):
    def said(**options):
        return continue_text(network, corpus, "Anne ", num_tokens=40, **options)

    assert said(seed=1) == said(seed=1) != said(seed=2)
    assert said(temperature=0, seed=1) == said(temperature=0, seed=2)
    assert network.training, "as it was before"


def test_text_cannot_go_on_from_nothing(network, corpus):
    with pytest.raises(ValueError, match="must not be empty") as error:
        continue_text(network, corpus, "", num_tokens=1)
    one_line(error)
