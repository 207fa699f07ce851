import hashlib
from pathlib import Path

import numpy as np
import pytest

from binaryrelax_lab.data import EpochPlan, load_dataset, load_fashion_mnist
from binaryrelax_lab.data.fashion_mnist import DIGEST, EMBEDDED_FILE


def test_embedded_set_is_balanced():
    data = load_fashion_mnist()
    assert data.train_images.shape == (10_000, 28, 28, 1)
    assert data.test_images.shape == (2_000, 28, 28, 1)
    assert data.train_labels.bincount().tolist() == [1000] * 10
    assert data.test_labels.bincount().tolist() == [200] * 10
    assert data.num_classes == 10


def test_embedded_images_are_normalised():
    data = load_fashion_mnist()
    (batch,) = data.train_batches(plan=EpochPlan(seed=0, epoch=0, batch_size=10_000))
    images, _ = data.look_up(*batch)
    assert images.mean().abs() < 1e-3
    assert (images.std() - 1).abs() < 1e-3


def test_embedded_file_is_small_and_needs_numpy_only():
    assert EMBEDDED_FILE.stat().st_size < 6_000_000
    assert hashlib.sha256(EMBEDDED_FILE.read_bytes()).hexdigest() == DIGEST
    with np.load(EMBEDDED_FILE, allow_pickle=False) as arrays:
        assert arrays["train_images"].dtype == np.uint8


def test_licence_lies_beside_the_images():
    text = EMBEDDED_FILE.with_name("LICENSE-fashion-mnist.txt").read_text(encoding="utf-8")
    assert "MIT" in text
    assert "Zalando SE" in text


def flip_one_byte(content: bytes) -> bytes:
    return content[:5000] + bytes([content[5000] ^ 1]) + content[5001:]


@pytest.mark.parametrize(
    "damage",
    [lambda c: c[: len(c) // 2], flip_one_byte, lambda c: b""],
    ids=["cut", "bit", "empty"],
)
def test_damaged_file_is_refused_with_the_way_out(tmp_path, damage):
    path = tmp_path / "fashion_mnist.npz"
    path.write_bytes(damage(EMBEDDED_FILE.read_bytes()))
    with pytest.raises(ValueError, match=r"fashion_mnist\.npz is damaged.*reinstall") as caught:
        load_fashion_mnist(path)
    assert "\n" not in str(caught.value)


def test_missing_file_is_named():
    with pytest.raises(ValueError, match=r"nowhere.npz cannot be read.*reinstall"):
        load_fashion_mnist(Path("nowhere.npz"))


def test_unknown_dataset_lists_those_there_are():
    with pytest.raises(ValueError, match="'mnist'; there are: fashion-mnist-12k"):
        load_dataset("mnist")
