"""The official files of CIFAR-10 and CIFAR-100: names, digests, where they lie, what they hold."""

import tarfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from binaryrelax_lab.data.cifar_pickle import unpickle_batch

LARGEST_FILE = 1 << 28  # bytes; a forged archive must not fill the memory
PIXELS = 3 * 32 * 32
Decoded = tuple[
    np.ndarray, np.ndarray
]  # pixels (count, PIXELS), one colour after the other; labels


@dataclass(frozen=True)
class Layout:
    """One of the two forms in which a set is given away.

    Args:
        folder: where the files lie, also within the archive.
        decode: makes pixels and labels of the content of a file; a `ValueError` if it cannot.
    """

    folder: str
    archive: str
    train_files: tuple[str, ...]
    test_file: str
    decode: Callable[[bytes], Decoded]

    @property
    def files(self) -> tuple[str, ...]:
        """All files that are needed."""
        return (*self.train_files, self.test_file)


@dataclass(frozen=True)
class Cifar:
    """One of the two sets.

    Args:
        mean: of red, green and blue over the training pixels, scaled to [0, 1].
        deviation: the standard deviation, likewise.
        layouts: the forms it comes in; the first one is downloaded.
    """

    title: str
    num_classes: int
    mean: tuple[float, float, float]
    deviation: tuple[float, float, float]
    layouts: tuple[Layout, ...]


def decode_rows(content: bytes, num_labels: int) -> Decoded:
    """The binary layout: rows of label bytes, the last one the finest, then the pixels."""
    length = num_labels + PIXELS
    if not content or len(content) % length:
        raise ValueError(f"{len(content):,} bytes are not rows of {length:,} bytes")
    rows = np.frombuffer(content, np.uint8).reshape(-1, length)
    return rows[:, num_labels:], rows[:, num_labels - 1]


def decode_pickle(content: bytes, label_key: bytes) -> Decoded:
    """The python layout: a pickled dictionary."""
    batch = unpickle_batch(content)
    pixels, labels = batch[b"data"], batch.get(label_key)
    if not isinstance(labels, list) or not all(isinstance(label, int) for label in labels):
        raise ValueError(f"no list of whole numbers called {label_key.decode()!r} in the pickle")
    if pixels.shape != (len(labels), PIXELS):
        raise ValueError(f"{len(labels)} labels, but pixels of shape {pixels.shape}")
    return pixels, np.array(labels, dtype=np.int64)


_CIFAR10_PARTS = tuple(f"data_batch_{number}" for number in range(1, 6))
CIFAR10 = Cifar(
    title="CIFAR-10",
    num_classes=10,
    mean=(0.4914, 0.4822, 0.4465),
    deviation=(0.2470, 0.2435, 0.2616),
    layouts=(
        Layout(
            folder="cifar-10-batches-bin",
            archive="cifar-10-binary.tar.gz",
            train_files=tuple(f"{part}.bin" for part in _CIFAR10_PARTS),
            test_file="test_batch.bin",
            decode=lambda content: decode_rows(content, num_labels=1),
        ),
        Layout(
            folder="cifar-10-batches-py",
            archive="cifar-10-python.tar.gz",
            train_files=_CIFAR10_PARTS,
            test_file="test_batch",
            decode=lambda content: decode_pickle(content, b"labels"),
        ),
    ),
)
CIFAR100 = Cifar(
    title="CIFAR-100",
    num_classes=100,
    mean=(0.5071, 0.4865, 0.4409),
    deviation=(0.2673, 0.2564, 0.2762),
    layouts=(
        Layout(
            folder="cifar-100-binary",
            archive="cifar-100-binary.tar.gz",
            train_files=("train.bin",),
            test_file="test.bin",
            decode=lambda content: decode_rows(content, num_labels=2),
        ),
        Layout(
            folder="cifar-100-python",
            archive="cifar-100-python.tar.gz",
            train_files=("train",),
            test_file="test",
            decode=lambda content: decode_pickle(content, b"fine_labels"),
        ),
    ),
)

OFFICIAL_DIGESTS = {
    "cifar-10-binary.tar.gz": "md5:c32a1d4ab5d03f1284b67883e8d87530",
    "cifar-10-batches-bin/data_batch_1.bin": "sha1:aadd24acce27caa71bf4b10992e9e7b2d74c2540",
    "cifar-10-batches-bin/data_batch_2.bin": "sha1:c0ba65cce70568cd57b4e03e9ac8d2a5367c1795",
    "cifar-10-batches-bin/data_batch_3.bin": "sha1:1dd00a74ab1d17a6e7d73e185b69dbf31242f295",
    "cifar-10-batches-bin/data_batch_4.bin": "sha1:aab85764eb3584312d3c7f65fd2fd016e36a258e",
    "cifar-10-batches-bin/data_batch_5.bin": "sha1:26e2849e66a845b7f1e4614ae70f4889ae604628",
    "cifar-10-batches-bin/test_batch.bin": "sha1:67eb016db431130d61cd03c7ad570b013799c88c",
    "cifar-10-python.tar.gz": "md5:c58f30108f718f92721af3b95e74349a",
    "cifar-10-batches-py/data_batch_1": "md5:c99cafc152244af753f735de768cd75f",
    "cifar-10-batches-py/data_batch_2": "md5:d4bba439e000b95fd0a9bffe97cbabec",
    "cifar-10-batches-py/data_batch_3": "md5:54ebc095f3ab1f0389bbae665268c751",
    "cifar-10-batches-py/data_batch_4": "md5:634d18415352ddfa80567beed471001a",
    "cifar-10-batches-py/data_batch_5": "md5:482c414d41f54cd18b22e5b47cb7c3cb",
    "cifar-10-batches-py/test_batch": "md5:40351d587109b95175f43aff81a1287e",
    "cifar-100-binary.tar.gz": "md5:03b5dce01913d631647c71ecec9e9cb8",
    "cifar-100-binary/train.bin": "sha1:e207cd2e05b73b1393c74c7f5e7bea451d63e08e",
    "cifar-100-binary/test.bin": "sha1:8fb6623e830365ff53cf14adec797474f5478006",
    "cifar-100-python.tar.gz": "md5:eb9058c3a382ffc7106e4002c42a8d85",
    "cifar-100-python/train": "md5:16019d7e3df5f24257cddd939b257f8d",
    "cifar-100-python/test": "md5:f0ef6b0ae62326f3e7ffdfab6717acfc",
}


@dataclass(frozen=True)
class CifarFiles:
    """The files of a layout, in the folder or archive at `path`."""

    layout: Layout
    path: Path

    def read(self) -> dict[str, bytes]:
        """The content of every file, by its name; a `ValueError` names one that is not there."""
        contents = dict(self._from_folder() if self.path.is_dir() else self._from_archive())
        for name in self.layout.files:
            if name not in contents:
                raise ValueError(f"{self.describe(name)} is missing; delete {self.path}")
        return contents

    def describe(self, name: str) -> str:
        """Where a file is, for people."""
        return f"{self.path / name}" if self.path.is_dir() else f"{name} in {self.path}"

    def _from_folder(self) -> Iterator[tuple[str, bytes]]:
        for name in self.layout.files:
            path = self.path / name
            if path.is_file():
                try:
                    yield name, path.read_bytes()
                except OSError as error:
                    raise ValueError(f"{path} cannot be read ({error.strerror})") from error

    def _from_archive(self) -> Iterator[tuple[str, bytes]]:
        """Reads the archive once, from beginning to end, into memory; nothing is unpacked."""
        wanted = {f"{self.layout.folder}/{name}": name for name in self.layout.files}
        try:
            with tarfile.open(self.path, "r|gz") as archive:
                for member in archive:
                    if member.name in wanted and member.isfile() and member.size < LARGEST_FILE:
                        content = archive.extractfile(member)
                        assert content is not None, "it is a file"
                        yield wanted[member.name], content.read()
        except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
            raise ValueError(f"{self.path} is damaged ({error}); delete it") from error


def find_files(layouts: tuple[Layout, ...], data: Path) -> CifarFiles | None:
    """The first layout that `data` is or holds, if any; loose files are preferred to archives."""
    for layout in layouts:
        for folder in (data, data / layout.folder):
            if any((folder / name).is_file() for name in layout.files):
                return CifarFiles(layout, folder)
    for layout in layouts:
        for archive in (data, data / layout.archive):
            if archive.name == layout.archive and archive.is_file():
                return CifarFiles(layout, archive)
    return None
