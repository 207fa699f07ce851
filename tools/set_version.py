"""Writes one version into every file that names it, or checks that all of them agree.

    python tools/set_version.py 0.3.0          writes it; CHANGELOG.md must have its section
    python tools/set_version.py --check        exit status 1 and a line for each disagreement
    python tools/set_version.py --check 0.3.0  also where the version is another one

`__version__` in src/binaryrelax/__init__.py is the version. The library is built with what it says.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Place:
    """A line of a file that repeats the version, or the day of its release.

    Args:
        path: of the file, from the root of the repository.
        before: what stands in front of it, from the beginning of the line.
        end: the character after it, or nothing where it ends the line.
    """

    path: str
    before: str
    end: str = ""

    def read(self, root: Path) -> str:
        """What the file says.

        Raises:
            ValueError: it says it nowhere, or twice.
        """
        found = self._pattern.findall((root / self.path).read_text())
        if len(found) != 1:
            raise ValueError(f"{self.path}: {len(found)} lines begin with {self.before!r}, not one")
        return str(found[0])

    def write(self, root: Path, value: str) -> None:
        """Makes the file say it."""
        path = root / self.path
        start, stop = next(self._pattern.finditer(path.read_text())).span(1)
        text = path.read_text()
        path.write_text(text[:start] + value + text[stop:])

    @property
    def _pattern(self) -> re.Pattern[str]:
        until = re.escape(self.end) if self.end else "$"
        return re.compile(rf"^{re.escape(self.before)}([^\"\n]*){until}", re.MULTILINE)


LIBRARY = Place("src/binaryrelax/__init__.py", '__version__ = "', '"')
VERSIONS = (
    LIBRARY,
    Place("lab/pyproject.toml", 'version = "', '"'),
    Place("lab/pyproject.toml", 'dependencies = ["binaryrelax[cli]>=', '"'),
    Place("native/pyproject.toml", 'version = "', '"'),
    Place("CITATION.cff", "version: "),
)
DAY = Place("CITATION.cff", "date-released: ")


def day_of(version: str, root: Path = ROOT) -> str:
    """The day of its release, of which the changelog tells.

    Raises:
        ValueError: no version is written like this, or the changelog has no section for it.
    """
    try:
        normal = str(Version(version))
    except InvalidVersion:
        raise ValueError(f"{version} is no version; write it as PEP 440 does") from None
    if normal != version:
        raise ValueError(f"{version} is written {normal} by PEP 440")
    heading = rf"^## \[{re.escape(version)}\] - (\d{{4}}-\d\d-\d\d)$"
    found = re.search(heading, (root / "CHANGELOG.md").read_text(), re.MULTILINE)
    if found is None:
        raise ValueError(f"CHANGELOG.md has no section '## [{version}] - YYYY-MM-DD'; write it")
    return found[1]


def set_version(version: str, root: Path = ROOT) -> None:
    """Writes version and day into all places, or into none.

    Raises:
        ValueError: as `day_of`, or a place is not there.
    """
    values = {**dict.fromkeys(VERSIONS, version), DAY: day_of(version, root)}
    for place in values:
        place.read(root)
    for place, value in values.items():
        place.write(root, value)


def disagreements(expected: str | None = None, root: Path = ROOT) -> list[str]:
    """A line for each place that says something else than the library, or than is expected."""
    try:
        version = LIBRARY.read(root) if expected is None else expected
        values = {**dict.fromkeys(VERSIONS, version), DAY: day_of(version, root)}
        said = {place: place.read(root) for place in values}
    except ValueError as error:
        return [str(error)]
    return [
        f"{place.path}: {place.before}{said[place]}{place.end} should say {value}"
        for place, value in values.items()
        if said[place] != value
    ]


def main() -> int:
    """Write or check."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("version", nargs="?", metavar="VERSION")
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args()
    if options.check:
        problems = disagreements(options.version)
    elif options.version is None:
        parser.error("give a version, or --check")
    else:
        try:
            set_version(options.version)
            problems = []
        except ValueError as error:
            problems = [str(error)]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
