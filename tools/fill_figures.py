"""Writes the figures in README and docs from the JSON files of runs and benchmarks.

A page says where: everything between `<!-- figures: NAME -->` and `<!-- end -->` is replaced. The
pictures in docs/images are drawn from such files too.

    python tools/fill_figures.py            write the pages
    python tools/fill_figures.py --check    only say which pages are out of date (exit status 1)
"""

from __future__ import annotations

import sys
from pathlib import Path

from binaryrelax_lab.report.figures import Evidence, all_pictures, stale_files
from binaryrelax_lab.studies.theory.catalogue import PARTS

ROOT = Path(__file__).parents[1]


def main() -> int:
    """Fill all pages and draw all pictures; with --check, change nothing."""
    only_check = "--check" in sys.argv
    pictures = all_pictures({part.name: part.draw for part in PARTS if part.draw})
    stale = stale_files(Evidence(ROOT), pictures)
    for path, content in stale.items():
        print(f"{path.relative_to(ROOT)}: {'out of date' if only_check else 'written'}")
        if not only_check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    return 1 if stale and only_check else 0


if __name__ == "__main__":
    raise SystemExit(main())
