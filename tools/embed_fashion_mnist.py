"""Makes the image set inside the package: a balanced part of Fashion-MNIST in one small file.

    python tools/embed_fashion_mnist.py [SOURCE_FOLDER]

SOURCE_FOLDER holds the four official ``*-ubyte.gz`` files; Debian's package
``dataset-fashion-mnist`` puts them into /usr/share/datasets/fashion-mnist, the default. The first
1000 images of each class of the official training set and the first 200 of each class of the
official test set are kept, in the official order. The file is a compressed ``.npz`` with fixed time
stamps, so the same input gives the same bytes (under the same zlib).
"""

import gzip
import hashlib
import io
import sys
import zipfile
from pathlib import Path

import numpy as np

SOURCE = Path("/usr/share/datasets/fashion-mnist")
TARGET = Path(__file__).parents[1] / "lab/binaryrelax_lab/data/fashion_mnist.npz"
TRAIN_PER_CLASS = 1000
TEST_PER_CLASS = 200
FIXED_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest a zip file can say


def read_idx(path: Path) -> np.ndarray:
    """The array of unsigned bytes in a gzipped IDX file: a header of sizes, then the data."""
    content = gzip.decompress(path.read_bytes())
    num_dimensions = content[3]
    sizes = np.frombuffer(content, ">u4", num_dimensions, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * num_dimensions).reshape(sizes)


def first_of_each_class(labels: np.ndarray, count: int) -> np.ndarray:
    """The positions of the first `count` images of every class, in their original order."""
    positions = [np.flatnonzero(labels == label)[:count] for label in np.unique(labels)]
    return np.sort(np.concatenate(positions))


def part(source: Path, prefix: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels of one balanced part."""
    images = read_idx(source / f"{prefix}-images-idx3-ubyte.gz")
    labels = read_idx(source / f"{prefix}-labels-idx1-ubyte.gz")
    kept = first_of_each_class(labels, count)
    return images[kept], labels[kept]


def write_npz(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Writes what ``numpy.savez_compressed`` would, but with fixed time stamps."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)
            entry = zipfile.ZipInfo(f"{name}.npy", FIXED_TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, member.getvalue(), compresslevel=9)


def main() -> None:
    """Writes the file and says its digest, which belongs into ``lab/data/fashion_mnist.py``."""
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else SOURCE
    train_images, train_labels = part(source, "train", TRAIN_PER_CLASS)
    test_images, test_labels = part(source, "t10k", TEST_PER_CLASS)
    arrays = {
        "train_images": train_images,
        "train_labels": train_labels,
        "test_images": test_images,
        "test_labels": test_labels,
    }
    write_npz(TARGET, arrays)
    digest = hashlib.sha256(TARGET.read_bytes()).hexdigest()
    sys.stdout.write(f"{TARGET}: {TARGET.stat().st_size:,} bytes\nsha256 {digest}\n")


if __name__ == "__main__":
    main()
