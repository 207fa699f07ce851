"""Says whether the built site asks a server for anything: scripts, styles, fonts or pictures.

python tools/check_site.py build/site    exit status 1 if it does, with a line for each place
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ELEMENT = re.compile(r"<(script|link|img|iframe|source|video|audio|embed|object)\b[^>]*>", re.I)
ADDRESS = re.compile(
    r"""\b(?:src|href|srcset|data)\s*=\s*["']?\s*((?:https?:)?//[^"'\s>]+)""", re.I
)
HARMLESS_LINK = re.compile(r"""rel=["']?(?:canonical|prev|next|alternate)\b""", re.I)
IN_STYLE = re.compile(r"""(?:url\(\s*["']?|@import\s+["'])((?:https?:)?//[^"')\s]+)""", re.I)
IN_SCRIPT = re.compile(r"""["'`](https?://[^"'`\s]+\.(?:m?js|css|woff2?|wasm)\b[^"'`]*)["'`]""")
CDN = re.compile(r"""["'`]((?:https?:)?//(?:unpkg\.com|cdn\.|cdnjs\.|fonts\.)[^"'`\s]*)["'`]""")


def outside_references(file: Path) -> list[str]:
    """Addresses on other hosts that a browser would fetch to show or run the file."""
    text = file.read_text(errors="replace")
    if file.suffix == ".html":
        parts = [m[0] for m in ELEMENT.finditer(text) if not HARMLESS_LINK.search(m[0])]
        found = [m[1] for part in parts for m in ADDRESS.finditer(part)]
        return found + [m[1] for m in IN_STYLE.finditer(text)]
    if file.suffix == ".css":
        return [m[1] for m in IN_STYLE.finditer(text)]
    return [m[1] for pattern in (IN_SCRIPT, CDN) for m in pattern.finditer(text)]


def main() -> int:
    """Look at every page, style sheet and script of the site."""
    site = Path(sys.argv[1])
    files = [f for f in sorted(site.rglob("*")) if f.suffix in (".html", ".css", ".js")]
    if not any(file.suffix == ".html" for file in files):
        print(f"{site} holds no page: `make docs` builds the site")
        return 1
    found = [(file, address) for file in files for address in outside_references(file)]
    for file, address in found:
        print(f"{file}: fetches {address}")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
