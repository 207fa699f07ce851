"""A quantizer and a granularity of the user's own walk from selecting weights to an export."""

from dataclasses import dataclass

import onnxruntime
import pytest
import torch
from torch import Tensor, nn

from binaryrelax import (
    BinaryRelax,
    GeometricGrowth,
    Granularity,
    PerChannel,
    PerGroup,
    PerLayer,
    Quantizer,
    Ternary,
    certify,
    export_onnx,
    export_openvino,
    load_packed,
    pack,
    save_packed,
    select_weights,
)
from tests.export.exported import images, largest_error
from tests.packed.cases import same_snapshot, seeded, snapshot


@dataclass(frozen=True)
class Lopsided(Quantizer):
    """Codes that are not symmetric, at the scale of the largest weight, or of ``share`` of it."""

    share: float = 1.0

    @property
    def codebook(self) -> tuple[float, ...]:
        return (-1.0, 0.0, 0.5, 1.0, 2.0)

    def split_rows(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        levels = torch.tensor(self.codebook, dtype=rows.dtype, device=rows.device)
        scale = self.share * rows.abs().amax(dim=1) / 2
        ratios = rows / torch.where(scale > 0, scale, 1)[:, None]
        return scale, levels[(ratios[..., None] - levels).abs().argmin(dim=-1)]


class HalfRows(Granularity):
    """One scale for each half of a row, however long it is."""

    def rows(self, w: Tensor) -> Tensor:
        return w.reshape(2 * w.shape[0], -1)

    def broadcast(self, scale: Tensor, w: Tensor) -> Tensor:
        half = w.numel() // len(scale)
        return scale.repeat_interleave(half).reshape(w.shape)


class Thirds(Granularity):
    """Three scales for a layer, which need not begin where a row does."""

    def rows(self, w: Tensor) -> Tensor:
        return w.reshape(3, -1)

    def broadcast(self, scale: Tensor, w: Tensor) -> Tensor:
        return scale.repeat_interleave(w.numel() // 3).reshape(w.shape)


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 6, 3, stride=3), nn.ReLU(), nn.AdaptiveAvgPool2d(3), nn.Flatten(),
        nn.Linear(54, 12), nn.ReLU(), nn.Linear(12, 4, bias=False),
    )  # fmt: skip


def trained(quantizer: Quantizer) -> tuple[nn.Module, dict[nn.Parameter, Quantizer]]:
    """The network after both phases, with weights in Q."""
    model = seeded(network)
    weights = select_weights(model, quantizer)
    schedule = GeometricGrowth(initial=1.0, growth=2.0, every=1, harden_at=3)
    optimizer = BinaryRelax(torch.optim.SGD(model.parameters(), lr=0.05), weights, schedule)
    for _ in range(5):
        optimizer.zero_grad()
        model(images(4, 2)).square().mean().backward()
        optimizer.step()
    return model, weights


def walk(quantizer: Quantizer, folder) -> nn.Module:
    """Trains, packs, saves, certifies, loads and exports; gives the loaded network."""
    model, weights = trained(quantizer)
    expected = [model[i].weight.detach().clone() for i in (0, 4, 6)]
    packed = pack(model, weights)
    save_packed(packed, folder / "net.safetensors")
    certificate = certify(folder / "net.safetensors")
    assert certificate.ok and {layer.codebook for layer in certificate.layers} == {
        quantizer.codebook
    }
    loaded = load_packed(folder / "net.safetensors", seeded(network, seed=1))
    assert same_snapshot(snapshot(loaded), snapshot(packed))
    assert all(torch.equal(loaded[i].weight, w) for i, w in zip((0, 4, 6), expected, strict=True))
    export_onnx(loaded, images(2, 2), folder / "net.onnx", exact=True)
    export_openvino(loaded, images(2, 2), folder / "net.xml", exact=True)
    session = onnxruntime.InferenceSession((folder / "net.onnx").read_bytes())
    (found,) = session.run(None, {session.get_inputs()[0].name: images(6, 2).numpy()})
    assert largest_error(torch.from_numpy(found), loaded(images(6, 2)).detach()) < 5e-6
    return loaded


@pytest.mark.parametrize("granularity", [PerLayer(), PerChannel()], ids=repr)
def test_a_quantizer_of_ones_own_walks_from_selection_to_export(granularity, tmp_path):
    loaded = walk(Lopsided(share=0.8, granularity=granularity), tmp_path)
    assert [loaded[i].format.granularity for i in (0, 4, 6)] == [granularity] * 3


@pytest.mark.parametrize("kind", [Ternary, Lopsided])
def test_a_granularity_of_ones_own_walks_from_selection_to_export(kind, tmp_path):
    loaded = walk(kind(granularity=HalfRows()), tmp_path)
    stored = [loaded[i].format.granularity for i in (0, 4, 6)]
    assert stored == [PerGroup(9), PerGroup(27), PerGroup(6)]


def test_groups_that_a_layer_cannot_hold_train_and_are_refused_before_anything_is_written(tmp_path):
    model, weights = trained(Ternary(granularity=Thirds()))  # 4 rows of the last: no third of them
    before = snapshot(model)
    with pytest.raises(ValueError, match=r"pack: layer '6': Thirds\(\) has groups of 16 weights"):
        pack(model, weights)
    assert same_snapshot(snapshot(model), before)
    for write in (save_packed, lambda net, path: export_onnx(net, images(2, 2), path)):
        with pytest.raises(ValueError, match=r"pack\(model, weights\) first"):
            write(model, tmp_path / "net")
    assert list(tmp_path.iterdir()) == []
