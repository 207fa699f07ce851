"""The image set that comes with the package: 10,000 + 2,000 balanced images of Fashion-MNIST.

The first 1000 images of each class of the official training set and the first 200 of each class of
the official test set; ``tools/embed_fashion_mnist.py`` made the file, and the licence lies beside
it.
"""

import hashlib
import io
from pathlib import Path

import numpy as np
import torch

from binaryrelax_lab.data.image_set import ImageSet

EMBEDDED_FILE = Path(__file__).with_name("fashion_mnist.npz")
DIGEST = "d89998007cb1ff282518a344d7bfea49a01ca2ac01d4fda330a9dabddbef4f0d"
CLASS_NAMES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
MEAN, DEVIATION = (0.2867,), (0.3540,)  # of the embedded training pixels, scaled to [0, 1]


def load_fashion_mnist(path: Path = EMBEDDED_FILE) -> ImageSet:
    """The embedded set; a `ValueError` if the file is missing or damaged."""
    with np.load(io.BytesIO(_checked_content(path)), allow_pickle=False) as arrays:
        return ImageSet(
            train_images=torch.from_numpy(arrays["train_images"]).unsqueeze(3),
            train_labels=torch.from_numpy(arrays["train_labels"].astype(np.int64)),
            test_images=torch.from_numpy(arrays["test_images"]).unsqueeze(3),
            test_labels=torch.from_numpy(arrays["test_labels"].astype(np.int64)),
            num_classes=len(CLASS_NAMES),
            mean=MEAN,
            deviation=DEVIATION,
        )


def _checked_content(path: Path) -> bytes:
    """The bytes of the file, once their digest has been found right."""
    way_out = "reinstall the package: pip install --force-reinstall ./lab in the source folder"
    try:
        content = path.read_bytes()
    except OSError as error:
        reason = error.strerror or error
        message = f"the embedded image set {path} cannot be read ({reason}); {way_out}"
        raise ValueError(message) from error
    digest = hashlib.sha256(content).hexdigest()
    if digest != DIGEST:
        raise ValueError(
            f"the embedded image set {path} is damaged ({len(content):,} bytes, sha256 "
            f"{digest[:12]}… instead of {DIGEST[:12]}…); {way_out}"
        )
    return content
