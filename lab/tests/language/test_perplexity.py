import math
from types import SimpleNamespace

import pytest
import torch
from lab.tests.support.texts import text_of
from torch import nn

from binaryrelax_lab.language import TextLoss, losses
from binaryrelax_lab.language.perplexity import token_losses


class LastToken(nn.Module):
    """Logits that depend on the last token only: the loss does not depend on windows."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(10, 10)

    def forward(self, tokens):
        assert not self.training
        return SimpleNamespace(logits=self.table(tokens))


@pytest.mark.parametrize(("length", "batch_size"), [(1, 1), (4, 3), (7, 100), (99, 2), (200, 1)])
def test_every_token_counts_once_however_the_text_is_cut(length, batch_size):
    torch.manual_seed(0)
    network, text = LastToken(), text_of(torch.randint(10, (100,)).tolist())
    tokens = text.tokens.long()
    expected = token_losses(network.table(tokens[:-1]), tokens[1:]).sum().item()
    found = losses(network, text, length=length, batch_size=batch_size)
    assert found.nats == pytest.approx(expected, rel=1e-6)
    assert (found.num_tokens, found.num_bytes) == (99, 99)
    assert network.training, "as it was before"


def test_a_network_that_knows_nothing():
    loss = TextLoss(nats=20 * math.log(256), num_tokens=20, num_bytes=20)
    assert loss.per_token == pytest.approx(math.log(256))
    assert loss.perplexity == pytest.approx(256)
    assert loss.bits_per_byte == pytest.approx(8)
