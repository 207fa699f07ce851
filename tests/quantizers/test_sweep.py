"""The bracketed sweep against the full sweep, its reference (eq. 4 for any levels)."""

import pytest
import torch

from binaryrelax.quantizers import Levels, PerChannel, PowerOfTwo, Uniform
from binaryrelax.quantizers.assignment import nearest_levels, refit
from binaryrelax.quantizers.sweep import bracketed_sweep, full_sweep

from .adversarial import KINDS, magnitudes_of_kind
from .cases import level_values, random_weights, same_bits, with_granularity

TOLERANCE = 1e-12  # of ||y||^2
every_kind = pytest.mark.parametrize("kind", KINDS)


def outcome(sweep, a, levels):
    """Codes of each row's sweep and their A^2/B."""
    codes, _ = refit(a, levels, nearest_levels(a, sweep(a, levels), levels))
    gain, cost = (a * codes).sum(1, dtype=torch.float64), codes.square().sum(1)
    return codes, (gain.square() / cost).nan_to_num(0.0)


def assert_sweeps_agree(a, levels):
    """The same objective; and the same codes, unless two are equally good to 14 digits."""
    codes, value = outcome(bracketed_sweep, a, levels)
    reference_codes, reference_value = outcome(full_sweep, a, levels)
    energy = a.double().square().sum(1)
    assert ((value - reference_value).abs() <= TOLERANCE * energy).all()
    differs = (codes != reference_codes).any(1)
    is_tie = (value - reference_value).abs() <= 1e-14 * energy
    assert is_tie[differs].all()


def magnitudes(kind, shape, levels, dtype=torch.float32):
    return magnitudes_of_kind(kind, shape, levels).to(dtype)


@every_kind
@pytest.mark.parametrize("bits", [3, 4])
def test_sweeps_agree_on_many_weights(bits, kind):
    levels = level_values(Uniform(bits=bits))
    assert_sweeps_agree(magnitudes(kind, (1, 100_000), levels), levels)


@every_kind
def test_sweeps_agree_at_8_bits(kind):
    levels = level_values(Uniform(bits=8))
    assert_sweeps_agree(magnitudes(kind, (1, 20_000), levels), levels)


OTHER_SETS = (
    Uniform(bits=5),
    Uniform(bits=6),
    PowerOfTwo(bits=3),
    PowerOfTwo(bits=5),
    PowerOfTwo(bits=8),
    Levels((0, 1, 3)),
    Levels((0.3, 1.7, 2.2)),
    Levels((1, 1.001, 50)),
    Levels((0, 1e-3, 1)),
)


@every_kind
@pytest.mark.parametrize("quantizer", OTHER_SETS, ids=repr)
def test_sweeps_agree_on_other_levels(quantizer, kind):
    levels = level_values(quantizer)
    assert_sweeps_agree(magnitudes(kind, (1, 3000), levels), levels)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(
    "quantizer", [Uniform(bits=4), Levels((1, 2.5)), PowerOfTwo(bits=4)], ids=repr
)
def test_rows_of_every_kind_and_magnitude_are_swept_together(quantizer, dtype):
    levels = level_values(quantizer)
    a = torch.cat([magnitudes(kind, (6, 257), levels, dtype) for kind in KINDS])
    a *= 2.0 ** (torch.arange(len(a)) % 7 * 6 - 18)[:, None].to(dtype)
    a[::9] = 0
    assert_sweeps_agree(a, levels)
    together = bracketed_sweep(a, levels)
    assert not together[::9].any()
    alone = torch.cat([bracketed_sweep(row[None], levels) for row in a])
    torch.testing.assert_close(together, alone, rtol=1e-13, atol=0)


def test_rows_of_one_weight_and_rows_of_zeros():
    levels = level_values(Uniform(bits=3))
    a = torch.tensor([[0.0], [3.0], [0.0], [1e-30]])
    for sweep in (full_sweep, bracketed_sweep):
        assert sweep(a, levels).tolist() == a[:, 0].double().tolist()
    assert bracketed_sweep(torch.zeros(4, 7), levels).tolist() == [0.0] * 4


@pytest.mark.parametrize(
    "quantizer", [Uniform(bits=3), Uniform(bits=4), PowerOfTwo(bits=3)], ids=repr
)
def test_projection_is_the_same_whichever_sweep_is_used(quantizer, monkeypatch):
    w = random_weights(4, 5000)
    for variant in (quantizer, with_granularity(quantizer, PerChannel())):
        results = []
        for sweep in (full_sweep, bracketed_sweep):
            monkeypatch.setattr("binaryrelax.quantizers.levels.full_sweep", sweep)
            monkeypatch.setattr("binaryrelax.quantizers.levels.bracketed_sweep", sweep)
            results.append(variant.project(w))
        assert same_bits(*results)


@pytest.mark.slow
@pytest.mark.parametrize("bits", range(3, 9))
@pytest.mark.parametrize(
    "kind", ["normal", "ties", "1e-30 and 1e30", "pareto tail", "two clusters"]
)
def test_sweeps_agree_on_a_million_weights(bits, kind):
    """The full 8-bit sweep sorts 127 million breakpoints: 6 GB and half a minute."""
    levels = level_values(Uniform(bits=bits))
    assert_sweeps_agree(magnitudes(kind, (1, 1_000_000), levels), levels)
