"""Takes pictures of the built site, desktop and phone, light and dark; needs chromium.

python tools/site_screenshots.py FOLDER [PAGE ...]    pages such as reference/training
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

SITE = Path(__file__).parents[1] / "build" / "site"
PAGES = ("index", "reference/training", "reference/file-format", "under-the-hood/maths")
SIZES = {"desktop": (1280, 900), "phone": (390, 844)}
SCHEMES = {"dark": 0, "light": 1}
OPTIONS = "--headless=new --no-sandbox --disable-gpu --hide-scrollbars --no-first-run"


def take(page: str, size: str, scheme: str, folder: Path) -> None:
    """One picture. A frame makes the width: chromium's own windows are never as narrow."""
    width, height = SIZES[size]
    address = (SITE / f"{page.partition('#')[0]}.html").as_uri() + page.removeprefix(
        page.partition("#")[0]
    )
    frame = f'<iframe src="{address}" style="border:0" width="{width}" height="{height}"></iframe>'
    with tempfile.TemporaryDirectory() as scratch:
        wrapper = Path(scratch, "frame.html")
        wrapper.write_text(f'<!doctype html><body style="margin:0;overflow:hidden">{frame}</body>')
        name = page.replace("/", "-").replace("#", "-")
        command = [
            *("chromium", *OPTIONS.split(), f"--window-size={max(width, 500)},{height}"),
            f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}",
            f"--user-data-dir={scratch}/profile",
            "--virtual-time-budget=4000",
            f"--screenshot={folder.absolute()}/{name}-{size}-{scheme}.png",
            wrapper.as_uri(),
        ]
        subprocess.run(command, check=True, capture_output=True, timeout=120)


def main() -> None:
    """Every page in every size and scheme."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for page in sys.argv[2:] or PAGES:
        for size in SIZES:
            for scheme in SCHEMES:
                take(page, size, scheme, folder)


if __name__ == "__main__":
    main()
