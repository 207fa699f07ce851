import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch

from binaryrelax.lab.data import load_dataset, load_fashion_mnist
from binaryrelax.lab.data.augmentation import flipped, shifted
from binaryrelax.lab.data.fashion_mnist import DIGEST, EMBEDDED_FILE


def test_embedded_set_is_balanced():
    data = load_fashion_mnist()
    assert data.train_images.shape == (10_000, 1, 28, 28)
    assert data.test_images.shape == (2_000, 1, 28, 28)
    assert data.train_labels.bincount().tolist() == [1000] * 10
    assert data.test_labels.bincount().tolist() == [200] * 10
    assert data.num_classes == 10


def test_embedded_images_are_normalised():
    images = load_fashion_mnist().train_images
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


def test_flipping_mirrors_some_images_and_leaves_the_rest():
    images = torch.arange(64 * 9.0).reshape(64, 1, 3, 3)
    changed = flipped(images, torch.Generator().manual_seed(0))
    kept = (changed == images).all(dim=(1, 2, 3))
    mirrored = (changed == images.flip(3)).all(dim=(1, 2, 3))
    assert (kept ^ mirrored).all()
    assert 16 < mirrored.sum() < 48


def test_shifting_moves_by_whole_pixels_and_fills_with_background():
    images = torch.rand(40, 2, 6, 7) + 1
    changed = shifted(images, 2, -5.0, torch.Generator().manual_seed(0))
    assert changed.shape == images.shape
    padded = torch.nn.functional.pad(images, (2, 2, 2, 2), value=-5.0)
    for before, after in zip(padded, changed, strict=True):
        crops = [before[:, r : r + 6, c : c + 7] for r in range(5) for c in range(5)]
        assert any(torch.equal(crop, after) for crop in crops)
