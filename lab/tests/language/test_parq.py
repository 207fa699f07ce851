"""PARQ as torchao takes its steps: its sets Q are ours, and it may be evaluated and resumed."""

import copy
from importlib.util import find_spec

import pytest
import torch

from binaryrelax import Binary, PerChannel, Ternary, select_weights
from binaryrelax_lab.language.parq import Parq
from binaryrelax_lab.language.requirements import needed_torchao, quiet_torchao

pytestmark = [
    pytest.mark.peers,
    pytest.mark.skipif(find_spec("torchao") is None, reason="needs torchao"),
]
HARD_FROM = 6
QUANTIZERS = (Binary(), Ternary())


def problem(quantizer, *, hard_from=HARD_FROM):
    """A layer that learns another layer's outputs; returns it, its optimizer, and a step."""
    random = torch.Generator().manual_seed(0)
    layer, inputs = torch.nn.Linear(32, 16), torch.randn(64, 32, generator=random)
    torch.nn.init.normal_(layer.weight, generator=random)
    torch.nn.init.zeros_(layer.bias)
    targets = torch.randn(64, 16, generator=random)
    groups = [{"params": [layer.weight]}, {"params": [layer.bias], "weight_decay": 0.0}]
    base = torch.optim.AdamW(groups, lr=0.01, fused=True)
    optimizer = Parq(base, select_weights(layer, quantizer), hard_from=hard_from)

    def step():
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(layer(inputs), targets).backward()
        optimizer.step()

    return layer, optimizer, step


@pytest.mark.parametrize("quantizer", QUANTIZERS, ids=repr)
def test_the_levels_are_those_of_its_own_least_squares_quantizer(quantizer):
    """That takes the magnitude of a weight for the best scale, which lies close to it."""
    lsbq = needed_torchao("torchao.prototype.parq.quant").LSBQuantizer(optimal=True)
    layer, optimizer, _ = problem(quantizer)
    latent = layer.weight.detach().flatten()[None].clone()
    bits = 1 if quantizer == Binary() else 0
    with quiet_torchao():
        _, levels = lsbq.quantize(latent, bits, dim=-1)
    _, ours = optimizer._sets.quantize(layer.weight, bits)
    torch.testing.assert_close(ours, levels[0], rtol=5e-3, atol=0)


@pytest.mark.parametrize("quantizer", QUANTIZERS, ids=repr)
def test_weights_are_relaxed_in_phase_one_and_in_q_from_phase_two_on(quantizer):
    layer, optimizer, step = problem(quantizer)
    for number in range(HARD_FROM + 3):
        step()
        is_hard = number >= HARD_FROM
        assert optimizer.phase == (2 if is_hard else 1)
        assert torch.equal(quantizer.project(layer.weight), layer.weight.detach()) == is_hard


@pytest.mark.parametrize("quantizer", QUANTIZERS, ids=repr)
@pytest.mark.parametrize("num_steps", [0, 3, HARD_FROM + 2])
def test_it_is_projected_inside_and_exactly_as_before_outside(quantizer, num_steps):
    layer, optimizer, step = problem(quantizer)
    for _ in range(num_steps):
        step()
    held = layer.weight.detach().clone()
    with pytest.raises(ZeroDivisionError), optimizer.projected():
        inside = layer.weight.detach().clone()
        raise ZeroDivisionError
    assert torch.equal(quantizer.project(inside), inside)
    assert torch.equal(layer.weight, held)
    step()  # the state of the first step must be as empty as torchao wants it


@pytest.mark.parametrize("num_steps", [1, HARD_FROM - 1, HARD_FROM + 1])
def test_it_goes_on_from_its_state_to_the_same_bits(num_steps):
    layer, optimizer, step = problem(Ternary())
    for _ in range(num_steps):
        step()
    again, resumed, step_again = problem(Ternary())
    again.load_state_dict(layer.state_dict())
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for _ in range(HARD_FROM):
        step()
        step_again()
    assert torch.equal(layer.weight, again.weight)
    assert torch.equal(layer.bias, again.bias)


def test_without_a_phase_one_every_step_is_hard():
    layer, _, step = problem(Ternary(), hard_from=0)
    step()
    assert len(layer.weight.unique()) == 3


def test_weights_that_are_no_numbers_are_refused():
    layer, _, step = problem(Ternary())
    with torch.no_grad():
        layer.weight[0, 0] = torch.nan
    with pytest.raises(ValueError, match="weights are NaN or infinite"):
        step()


def test_a_scale_for_each_channel_is_refused():
    with pytest.raises(ValueError, match=r"quantizer=Ternary\(.*a single scale per layer"):
        problem(Ternary(granularity=PerChannel()))
