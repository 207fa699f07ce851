"""The version is written in one place, and every other place agrees with it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tools.set_version import DAY, LIBRARY, VERSIONS, disagreements, set_version

import binaryrelax

ROOT = Path(__file__).parents[1]
SECTION = "## [0.3.0rc1] - 2027-01-31\n"
PLACES = sorted({place.path for place in (*VERSIONS, DAY)})


@pytest.fixture
def copy(tmp_path):
    """The files that name a version, with a changelog that announces another one."""
    for path in PLACES:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    text = (ROOT / "CHANGELOG.md").read_text()
    (tmp_path / "CHANGELOG.md").write_text(text.replace("## [", SECTION + "\n## [", 1))
    return tmp_path


def texts(folder):
    return {path: (folder / path).read_text() for path in PLACES}


def test_every_place_says_the_version_of_the_library():
    assert disagreements() == []
    assert LIBRARY.read(ROOT) == binaryrelax.__version__


def test_a_version_is_written_everywhere_and_nothing_else_changes(copy):
    before = texts(copy)
    set_version("0.3.0rc1", copy)
    assert disagreements(root=copy) == disagreements("0.3.0rc1", copy) == []
    assert DAY.read(copy) == "2027-01-31"
    for path, text in texts(copy).items():
        num_places = sum(place.path == path for place in (*VERSIONS, DAY))
        lines = zip(before[path].splitlines(), text.splitlines(), strict=True)
        assert sum(old != new for old, new in lines) == num_places


@pytest.mark.parametrize(
    ("version", "reason"),
    {
        "0.9.0": "CHANGELOG.md has no section",
        "0.3": "CHANGELOG.md has no section",
        "0.3.0-rc1": "written 0.3.0rc1 by PEP 440",
        "v0.3.0rc1": "written 0.3.0rc1 by PEP 440",
        "next": "next is no version",
        "": "is no version",
    }.items(),
)
def test_a_version_that_is_none_or_has_no_section_is_refused_and_nothing_written(
    version, reason, copy
):
    before = texts(copy)
    with pytest.raises(ValueError, match=reason):
        set_version(version, copy)
    assert texts(copy) == before


@pytest.mark.parametrize("place", (*VERSIONS, DAY), ids=lambda place: place.path)
def test_a_place_that_disagrees_is_named(place, copy):
    set_version("0.3.0rc1", copy)
    place.write(copy, "1.0")
    problems = disagreements(root=copy)
    assert problems and (place is LIBRARY or problems[0].startswith(place.path))
    assert disagreements("0.3.0rc1", copy)


def test_a_place_that_is_gone_is_named_and_nothing_written(copy):
    path = copy / "native" / "pyproject.toml"
    path.write_text(path.read_text().replace("version =", "release ="))
    before = texts(copy)
    with pytest.raises(ValueError, match=r"native/pyproject\.toml: 0 lines"):
        set_version("0.3.0rc1", copy)
    assert texts(copy) == before
    assert disagreements("0.3.0rc1", copy)


def test_the_command_checks_the_version_that_a_tag_names():
    command = [sys.executable, ROOT / "tools" / "set_version.py", "--check"]
    right = subprocess.run([*command, binaryrelax.__version__], capture_output=True, text=True)
    assert (right.returncode, right.stderr) == (0, "")
    wrong = subprocess.run([*command, "99.0"], capture_output=True, text=True)
    assert wrong.returncode == 1
    assert "CHANGELOG.md has no section" in wrong.stderr
