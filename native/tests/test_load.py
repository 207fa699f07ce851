"""Networks from what a file holds, instead of the file."""

import binaryrelax_native as native
import numpy as np
import pytest
from native.tests.network_files import residual


@pytest.mark.parametrize("mode", ["fast", "exact"])
def test_the_content_of_a_file_does_as_well_as_the_file(mode, tmp_path):
    content = residual(mode)
    (tmp_path / "net.brx").write_bytes(content)
    images = np.random.default_rng(0).normal(size=(2, 3, 9, 8)).astype(np.float32)
    from_file, from_bytes = native.load(tmp_path / "net.brx"), native.load(content)
    assert np.array_equal(from_bytes(images), from_file(images))
    assert repr(from_bytes) == (
        f"Network('network of {len(content):,} bytes', mode='{mode}', inputs=(N, 3, 9, 8))"
    )


def test_content_that_is_no_network_is_named_by_its_size():
    with pytest.raises(ValueError, match=r"network of 1,234 bytes: is no intact safetensors file"):
        native.load(bytes(1234))
