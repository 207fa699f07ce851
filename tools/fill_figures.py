"""Writes the figures in README and docs from the JSON files of runs and benchmarks.

A page says where: everything between `<!-- figures: NAME -->` and `<!-- end -->` is replaced. The
pictures in docs/images are drawn from such files too.

    python tools/fill_figures.py            write the pages
    python tools/fill_figures.py --check    only say which pages are out of date (exit status 1)
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

from figures import (
    cifar10,
    comparisons,
    convolutions,
    demo,
    findings,
    packed,
    pictures,
    projection,
    search,
    step,
    summary,
    theory,
    zoo,
)
from figures.common import ROOT
from figures.pictures import PICTURES

PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
SOURCES = (
    *(demo, projection, step, convolutions, packed, zoo, theory),
    *(cifar10, summary, comparisons, findings, search, pictures),
)
MARKED = re.compile(r"(<!-- figures: ([\w-]+) -->).*?<!-- end -->", re.DOTALL)
SECTIONS: dict[str, Callable[[], str]] = {
    name: section for source in SOURCES for name, section in source.SECTIONS.items()
}


def main() -> int:
    """Fill all pages and draw all pictures; with --check, change nothing."""
    only_check = "--check" in sys.argv
    wanted = {page: filled(page.read_text()).encode() for page in PAGES}
    wanted |= {picture_file(name): picture.draw() for name, picture in PICTURES.items()}
    stale = {
        path: content
        for path, content in wanted.items()
        if not path.is_file() or path.read_bytes() != content
    }
    for path, content in stale.items():
        print(f"{path.relative_to(ROOT)}: {'out of date' if only_check else 'written'}")
        if not only_check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    return 1 if stale and only_check else 0


def picture_file(name: str) -> Path:
    """Where a picture is."""
    return ROOT / "docs" / "images" / f"{name}.png"


def filled(text: str) -> str:
    """The page with every marked section made anew."""

    def section(match: re.Match[str]) -> str:
        return f"{match[1]}\n\n{SECTIONS[match[2]]()}\n\n<!-- end -->"

    return MARKED.sub(section, text)


if __name__ == "__main__":
    raise SystemExit(main())
