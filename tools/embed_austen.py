"""Makes the texts inside the package: a novel, and the beginning of another to test with.

    python tools/embed_austen.py PERSUASION NORTHANGER_ABBEY

The arguments are Project Gutenberg's text files of the two novels (eBooks 105 and 121). All that
is Project Gutenberg's own is cut off, lines of a paragraph are joined. The same input gives the
same bytes (under the same liblzma).
"""

import hashlib
import lzma
import re
import sys
from pathlib import Path

TARGET = Path(__file__).parents[1] / "lab/binaryrelax_lab/language/austen"
VALIDATION_CHARACTERS = 60_000


def novel(path: Path) -> str:
    """The words of the novel alone, a paragraph per line."""
    text = path.read_text(encoding="utf-8").replace("\r", "")
    start = re.search(r"^chapter (1|i)$", text, re.IGNORECASE | re.MULTILINE)
    end = re.search(r"^\*\*\* ?END OF", text, re.MULTILINE)
    if start is None or end is None:
        raise SystemExit(f"{path}: no first chapter, or no end of the eBook")
    body = text[start.start() : end.start()]
    body = re.sub(r"\n*End of (the )?Project Gutenberg.*", "", body, flags=re.IGNORECASE)
    joined = re.sub(r"(?<!\n)\n(?!\n)", " ", re.sub(r"[ \t]+", " ", body))
    return re.sub(r"\s*\n\s*", "\n", joined).strip() + "\n"


def beginning(text: str) -> str:
    """Whole paragraphs, as many as fit."""
    return text[: text.rindex("\n", 0, VALIDATION_CHARACTERS) + 1]


def main() -> None:
    """Writes both files and says their digests, which belong into ``language/novels.py``."""
    train, validation = (novel(Path(argument)) for argument in sys.argv[1:3])
    for name, text in (("train", train), ("val", beginning(validation))):
        path = TARGET / f"{name}.txt.xz"
        path.write_bytes(lzma.compress(text.encode(), preset=9))
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        print(f"{path}: {path.stat().st_size:,} bytes of {len(text):,} characters, {digest}")


if __name__ == "__main__":
    main()
