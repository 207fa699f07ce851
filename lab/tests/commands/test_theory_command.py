"""`binaryrelax theory`: figures and numbers in a folder that may hold other files."""

import json
import subprocess
import sys

import pytest
from lab.tests.support.command import app
from PIL import Image
from typer.testing import CliRunner

from binaryrelax_lab.studies.theory.catalogue import PARTS

QUICK = ("figure1", "figure4", "hamilton-jacobi", "relaxed-minima")


def invoke(*arguments):
    return CliRunner().invoke(app, ["theory", *map(str, arguments)])


def chosen(names):
    return [word for name in names for word in ("--only", name)]


def test_figures_and_numbers_lie_side_by_side(tmp_path):
    other = tmp_path / "figures" / "notes.txt"
    other.parent.mkdir()
    other.write_text("mine")
    result = invoke("--out", tmp_path / "figures", *chosen(QUICK))
    assert result.exit_code == 0, result.output
    assert "4 parts in" in result.stdout and f"all in {tmp_path / 'figures'}" in result.stdout
    assert other.read_text() == "mine"
    written = {path.name for path in other.parent.iterdir()} - {"notes.txt"}
    assert written == {f"{name}.{kind}" for name in QUICK for kind in ("png", "json")}
    for name in QUICK:
        with Image.open(other.parent / f"{name}.png") as picture:
            assert picture.width > 500 and len(picture.convert("RGB").getcolors(10**6)) > 10
        json.loads((other.parent / f"{name}.json").read_text(), parse_constant=int)


@pytest.mark.slow
def test_numbers_are_the_same_bytes_in_another_process(tmp_path):
    names = ("figure4", "relaxed-minima", "envelope")
    assert invoke("--out", tmp_path / "here", *chosen(names)).exit_code == 0
    command = [sys.executable, "-m", "binaryrelax", "theory", *chosen(names)]
    shown = subprocess.run(
        [*command, "--out", tmp_path / "there", "--results", tmp_path / "numbers"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stderr == ""
    for name in names:
        here, there = tmp_path / "here" / f"{name}.json", tmp_path / "numbers" / f"{name}.json"
        assert here.read_bytes() == there.read_bytes()
        assert not (tmp_path / "there" / f"{name}.json").exists()
        picture = f"{name}.png"
        assert (tmp_path / "here" / picture).read_bytes() == (
            tmp_path / "there" / picture
        ).read_bytes()


def test_unknown_part_is_one_line_and_writes_nothing(tmp_path):
    result = invoke("--out", tmp_path / "out", "--only", "theorems")
    assert result.exit_code == 2
    assert result.stderr.startswith(
        "binaryrelax: --only theorems: there is no such part; there are"
    )
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_file_where_the_folder_should_be_is_one_line(tmp_path):
    (tmp_path / "out").write_text("")
    result = invoke("--out", tmp_path / "out", "--only", "figure1")
    assert result.exit_code == 1
    assert "is a file; give the name of a folder" in result.stderr


def test_names_of_parts_are_names_of_files():
    names = [part.name for part in PARTS]
    assert len(set(names)) == len(names)
    assert all(name.replace("-", "").isalnum() for name in names)
