"""State dicts of other packed networks: what their codes mean travels with them."""

import io
import re
from collections import OrderedDict

import pytest
import torch
from torch import nn

from binaryrelax import Binary, Levels, PerChannel, PerGroup, Ternary, Uniform
from tests.packed.cases import (
    IMAGES,
    packed_copy,
    same_snapshot,
    same_tensor,
    small_network,
    snapshot,
)


def packed(quantizer, make=small_network) -> nn.Module:
    return packed_copy(make, quantizer)[1]


def refused(model: nn.Module, state) -> str:
    """Why the state dict is refused; codes and scales stay as they were."""
    before = {n: t.clone() for n, t in model.state_dict().items() if n.endswith(("codes", "scale"))}
    with pytest.raises(RuntimeError) as caught:
        model.load_state_dict(state)
    after = model.state_dict()
    assert all(same_tensor(after[name], tensor) for name, tensor in before.items())
    return str(caught.value)


def through_a_file(state):
    buffer = io.BytesIO()
    torch.save(state, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=True)


@pytest.mark.parametrize("carried", [lambda state: state, through_a_file], ids=["direct", "file"])
@pytest.mark.parametrize(
    ("there", "here"),
    [
        (Levels((1, 2)), Levels((1, 3))),
        (Ternary(), Uniform(bits=2, granularity=PerChannel())),
        (Binary(granularity=PerGroup(2)), Binary(granularity=PerGroup(1))),
        (Levels((1, 2, 3, 4)), Uniform(bits=3)),
    ],
    ids=repr,
)
def test_codes_of_another_codebook_or_granularity_do_not_load_in_silence(there, here, carried):
    text = refused(packed(here), carried(packed(there).state_dict()))
    for name in ("'0'", "'3'", "'7'"):
        assert f"packed layer {name}: the state dict is of codebook" in text
    for quantizer in (there, here):
        assert f"codebook {quantizer.codebook}, granularity {quantizer.granularity}" in text


def test_codes_of_another_shape_are_refused():
    """A row of 12 and one of 15 ternary codes take the same bytes."""
    there = packed(Ternary(), lambda: nn.Sequential(nn.Linear(13, 4, bias=False)))
    here = packed(Ternary(), lambda: nn.Sequential(nn.Linear(15, 4, bias=False)))
    assert re.search(r"shape \(4, 13\); here .* shape \(4, 15\)", refused(here, there.state_dict()))


def test_without_its_format_a_state_is_refused_if_its_values_prove_it_wrong():
    """As it comes from safetensors, or from a dict of the user's own."""
    state = dict(packed(Uniform(bits=3)).state_dict())
    text = refused(packed(Levels((0, 1, 2))), state)
    assert "packed layer '0': a code is not below 5" in text and "(-2.0, -1.0, 0.0, 1.0" in text
    state = {**packed(Ternary()).state_dict(), "7.scale": torch.tensor([-1.0])}
    assert "a scale is negative" in refused(packed(Ternary()), state)


@pytest.mark.parametrize("carried", [lambda s: s, through_a_file, dict, OrderedDict])
def test_states_of_the_same_format_load(carried):
    there, here = packed(Levels((1, 2))), packed(Levels((1, 2)))
    with torch.no_grad():
        there[0].scale *= 2
    here.load_state_dict(carried(there.state_dict()))
    assert same_snapshot(snapshot(here), snapshot(there))
    assert torch.equal(here(IMAGES), there(IMAGES))
    here.load_state_dict(carried(there.state_dict()), assign=True)
    assert same_snapshot(snapshot(here), snapshot(there))


def test_a_state_without_codes_may_be_of_any_format():
    """Normalizations of one network for another: torch lists what is missing."""
    there, here = packed(Levels((1, 2))), packed(Levels((1, 3)))
    state = there.state_dict()
    for name in [name for name in state if name.split(".")[0] in ("0", "3", "7")]:
        del state[name]
    missing = here.load_state_dict(state, strict=False).missing_keys
    assert "0.codes" in missing and not any(name.startswith("1.") for name in missing)


def test_state_dicts_hold_tensors_only():
    assert all(isinstance(t, torch.Tensor) for t in packed(Ternary()).state_dict().values())
