"""Small sets in the layouts of CIFAR, written byte by byte as the official ones are."""

import hashlib
import io
import struct
import tarfile
from pathlib import Path

import numpy as np
import torch

from binaryrelax_lab.data import ImageSet

NAMES = {
    "cifar10": [*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"],
    "cifar100": ["train", "test"],
}
FOLDERS = {
    ("cifar10", "python"): "cifar-10-batches-py",
    ("cifar10", "binary"): "cifar-10-batches-bin",
    ("cifar100", "python"): "cifar-100-python",
    ("cifar100", "binary"): "cifar-100-binary",
}
ARCHIVES = {
    (name, layout): f"cifar-{name.removeprefix('cifar')}-{layout}.tar.gz"
    for name, layout in FOLDERS
}
PER_FILE = 4


def images_and_labels(name: str, file: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Planar images, coarse and fine labels; the same for the same file."""
    rng = np.random.default_rng(NAMES[name].index(file))
    images = rng.integers(0, 256, (PER_FILE, 3, 32, 32), dtype=np.uint8)
    fine = rng.integers(0, 10 if name == "cifar10" else 100, PER_FILE, dtype=np.uint8)
    return images, fine // 5, fine


def binary_file(name: str, file: str) -> bytes:
    images, coarse, fine = images_and_labels(name, file)
    labels = [fine] if name == "cifar10" else [coarse, fine]
    return np.column_stack([*labels, images.reshape(PER_FILE, -1)]).tobytes()


def python_file(name: str, file: str) -> bytes:
    """A pickle as Python 2 wrote it: protocol 2, byte strings, old names of numpy."""
    images, coarse, fine = images_and_labels(name, file)
    entries = {b"batch_label": short_string(b"a batch"), b"data": array(images)}
    if name == "cifar10":
        entries[b"labels"] = numbers(fine)
    else:
        entries |= {b"coarse_labels": numbers(coarse), b"fine_labels": numbers(fine)}
    items = b"".join(short_string(key) + value for key, value in entries.items())
    return b"\x80\x02}(" + items + b"u."


def short_string(text: bytes) -> bytes:
    return b"U" + bytes([len(text)]) + text


def numbers(values: np.ndarray) -> bytes:
    return b"](" + b"".join(b"K" + bytes([value]) for value in values) + b"e"


def array(images: np.ndarray) -> bytes:
    content = images.tobytes()
    minus_one = b"J\xff\xff\xff\xff"
    state = b"(K\x03U\x01|NNN" + minus_one + minus_one + b"K\x00tb"
    kind = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R" + state
    return (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
        b"(K\x01K" + bytes([len(images)]) + b"M\x00\x0c\x86" + kind + b"\x89"
        b"T" + struct.pack("<i", len(content)) + content + b"tb"
    )


def contents(name: str, layout: str) -> dict[str, bytes]:
    """Every file of the layout, by its path in the archive."""
    folder = FOLDERS[name, layout]
    if layout == "python":
        return {f"{folder}/{file}": python_file(name, file) for file in NAMES[name]}
    return {f"{folder}/{file}.bin": binary_file(name, file) for file in NAMES[name]}


def digests(files: dict[str, bytes]) -> dict[str, str]:
    return {path: f"md5:{hashlib.md5(content).hexdigest()}" for path, content in files.items()}


def write_folder(root: Path, files: dict[str, bytes]) -> None:
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)


def archive(files: dict[str, bytes]) -> bytes:
    """A compressed archive, with a file that nobody needs in front."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for path, content in {"readme.html": b"hello", **files}.items():
            member = tarfile.TarInfo(path)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def assert_complete(name: str, data: ImageSet) -> None:
    """Every image and fine label of the generated files, in their order."""
    *train, test = [images_and_labels(name, file) for file in NAMES[name]]
    assert data.num_train == PER_FILE * len(train)
    assert data.num_test == PER_FILE
    images = torch.from_numpy(np.concatenate([part[0] for part in train]))
    assert torch.equal(data.train_images, images.permute(0, 2, 3, 1))
    assert data.train_labels.tolist() == np.concatenate([part[2] for part in train]).tolist()
    assert torch.equal(data.test_images, torch.from_numpy(test[0]).permute(0, 2, 3, 1))
    assert data.test_labels.tolist() == test[2].tolist()
    assert data.num_classes == (10 if name == "cifar10" else 100)
