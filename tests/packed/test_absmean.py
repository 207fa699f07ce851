"""Weights trained with BitNet's absmean: its formula does not reproduce them, files must."""

import pytest
import torch
from torch import nn

from binaryrelax import (
    BinaryRelax,
    LinearMix,
    PerChannel,
    PerGroup,
    PerLayer,
    TernaryAbsMean,
    certify,
    distance,
    export_native,
    load_packed,
    measure,
    pack,
    save_packed,
    select_weights,
)
from tests.packed.cases import seeded


def network():
    return nn.Sequential(
        nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 24), nn.ReLU(), nn.Linear(24, 4)
    )


def trained(granularity, num_steps=12):
    model = seeded(network).train()
    weights = select_weights(model, TernaryAbsMean(granularity=granularity), keep_float=("4",))
    base = torch.optim.AdamW(model.parameters(), lr=0.01)
    optimizer = BinaryRelax(base, weights, LinearMix(2, 8))
    inputs = torch.randn(64, 16, generator=torch.Generator().manual_seed(1))
    for _ in range(num_steps):
        optimizer.zero_grad()
        (model(inputs) - inputs[:, :4]).square().mean().backward()
        optimizer.step()
    return model.eval(), weights, optimizer, inputs


@pytest.mark.parametrize("granularity", [PerLayer(), PerChannel(), PerGroup(8)], ids=repr)
def test_trained_weights_come_back_from_a_file_to_the_bit(granularity, tmp_path):
    model, weights, optimizer, inputs = trained(granularity)
    assert optimizer.phase == 2 and all(record.distance == 0 for record in measure(optimizer))
    for weight, quantizer in weights.items():
        assert distance(weight.detach(), quantizer) == 0
        assert 0 < weight.count_nonzero() < weight.numel()  # so the formula would shrink it
    expected = [weight.detach().clone() for weight in weights]
    save_packed(pack(model, weights), tmp_path / "net")
    back = load_packed(tmp_path / "net", seeded(network, seed=5))
    for layer, weight in zip((back[0], back[2]), expected, strict=True):
        assert torch.equal(layer.weight, weight)
    certificate = certify(tmp_path / "net", against=model)
    assert certificate.ok, certificate.reason
    assert [layer.distinct_values for layer in certificate.layers] == [3, 3]
    torch.testing.assert_close(back(inputs), model(inputs))


def test_the_native_runtime_has_their_scales(tmp_path):
    native = pytest.importorskip("binaryrelax_native", reason="there is no runtime")
    model, weights, _, inputs = trained(PerChannel())
    with torch.no_grad():
        expected = model(inputs)
    packed = pack(model, weights)
    save_packed(packed, tmp_path / "net")
    export_native(packed, inputs, tmp_path / "net.brx", mode="exact")
    assert certify(tmp_path / "net.brx", against=tmp_path / "net").ok
    found = native.load(tmp_path / "net.brx")(inputs.numpy())
    torch.testing.assert_close(torch.from_numpy(found), expected, rtol=1e-4, atol=1e-5)


def test_weights_outside_of_q_are_refused():
    """Also those in Q but for one weight, whose formula has another scale by far."""
    model, weights, _, _ = trained(PerLayer())
    with torch.no_grad():
        model[2].weight[0, 0] += 1e-3
    with pytest.raises(ValueError, match=r"layer '2'.* not in Q: distance .*TernaryAbsMean\(\)"):
        pack(model, weights)
    model, weights, optimizer, _ = trained(PerLayer(), num_steps=5)
    assert optimizer.phase == 1
    with pytest.raises(ValueError, match=r"layer '0'.* not in Q"):
        pack(model, weights)
