"""What the native runtime takes for images of every size, and what for one size only."""

import numpy as np
import pytest
import torch
from torch import nn

from binaryrelax import Binary, export_native
from tests.export.exported import packed

binaryrelax_native = pytest.importorskip("binaryrelax_native")


class _Sliced(nn.Module):
    def __init__(self, code):
        super().__init__()
        self.layer, self.code = nn.Conv2d(2, 6, 1), code

    def forward(self, x):
        return self.code(self.layer(x))


def _as_in_torch(model, path, *sizes):
    export_native(model, torch.randn(2, 2, 4, 3), path, mode="exact")
    network = binaryrelax_native.load(path)
    for size in sizes:
        x = torch.randn(2, 2, *size)
        with torch.no_grad():
            expected = model(x).numpy()
        np.testing.assert_allclose(network(x.numpy()), expected, rtol=1e-5, atol=1e-6)


def test_a_flattened_map_is_sliced_to_its_end_whatever_its_size(tmp_path):
    model = packed(lambda: _Sliced(lambda x: x.flatten(1)[:, 2::3]), Binary())
    _as_in_torch(model, tmp_path / "net.brx", (4, 3), (5, 7))


def test_new_dimensions_among_slices(tmp_path):
    """As squeeze-and-excitation is often written."""
    model = packed(lambda: _Sliced(lambda x: x * x.mean((2, 3))[:, :, None, None]), Binary())
    _as_in_torch(model, tmp_path / "net.brx", (4, 3), (5, 7))


def test_calibration_of_a_size_that_the_program_does_not_take(tmp_path):
    """A number for each feature of a vector is made for as many as the example has."""
    model = packed(lambda: _Sliced(lambda x: x.flatten(1)[:, 1:] * 2 + 1), Binary())
    example, larger = torch.randn(2, 2, 4, 3), torch.randn(2, 2, 5, 7)
    with pytest.raises(ValueError, match=r"does not take \(2, 2, 5, 7\); give images of"):
        export_native(model, example, tmp_path / "net.brx", calibration=larger)
    assert not (tmp_path / "net.brx").exists()
