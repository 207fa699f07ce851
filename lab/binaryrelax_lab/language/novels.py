"""The text that comes with the package: a novel to train on, and the beginning of another.

``tools/embed_austen.py`` made the files; where they come from is said beside them.
"""

import hashlib
import lzma
from pathlib import Path

EMBEDDED_FOLDER = Path(__file__).with_name("austen")
DIGESTS = {
    "train": "5376ad4cd3053d9208e90eddb7d9bb8208d0e62aaf30d5ff99fe3bff075752d4",
    "val": "b29ee6fa2c6fd7bd8b238524802173d42f2c1aa6fc46e324fbf0fe6746bb0da1",
}


def embedded_text(name: str, folder: Path = EMBEDDED_FOLDER) -> bytes:
    """The text, "train" or "val", in UTF-8; a `ValueError` if its file is missing or damaged."""
    path = folder / f"{name}.txt.xz"
    way_out = "reinstall the package: pip install --force-reinstall ./lab in the source folder"
    try:
        content = path.read_bytes()
    except OSError as error:
        reason = error.strerror or error
        raise ValueError(
            f"the embedded text {path} cannot be read ({reason}); {way_out}"
        ) from error
    if hashlib.sha256(content).hexdigest() != DIGESTS[name]:
        raise ValueError(f"the embedded text {path} is damaged; {way_out}")
    return lzma.decompress(content)
