"""Writes the figures in README and docs from the JSON files of runs and benchmarks.

A page says where: everything between `<!-- figures: NAME -->` and `<!-- end -->` is replaced.

    python tools/fill_figures.py            write the pages
    python tools/fill_figures.py --check    only say which pages are out of date (exit status 1)
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

from figures import cifar10, demo, packed, projection, step, theory
from figures.common import ROOT

PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
SECTIONS: dict[str, Callable[[], str]] = {
    name: section
    for source in (demo, projection, step, cifar10, packed, theory)
    for name, section in source.SECTIONS.items()
}


def main() -> int:
    """Fill all pages; with --check, change nothing."""
    stale = [page for page in PAGES if filled(page.read_text()) != page.read_text()]
    for page in stale:
        print(f"{page.relative_to(ROOT)}: {'out of date' if '--check' in sys.argv else 'written'}")
        if "--check" not in sys.argv:
            page.write_text(filled(page.read_text()))
    return 1 if stale and "--check" in sys.argv else 0


def filled(text: str) -> str:
    """The page with every marked section made anew."""

    def section(match: re.Match[str]) -> str:
        return f"{match[1]}\n\n{SECTIONS[match[2]]()}\n\n<!-- end -->"

    return re.sub(r"(<!-- figures: ([\w-]+) -->).*?<!-- end -->", section, text, flags=re.DOTALL)


if __name__ == "__main__":
    raise SystemExit(main())
