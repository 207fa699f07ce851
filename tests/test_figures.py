"""Figures in README and docs are those of the committed JSON files."""

import io
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
import fill_figures
from figures.pictures import PICTURES
from figures.step import profile_tables

TABLES_OF_WORDS = {  # written by hand: they hold no measured figure
    "| you want | you write |",
    "| | binaryrelax | torchao PARQ 0.18 | Brevitas | Larq | BitNet code |",
    "| | |",
    "| letter | word in the code | meaning |",
    "| | what it says | implemented in | checked in |",
    "| claim | test |",
    "| | a byte holds, least significant first | code |",
    "| input | engine | computes |",
}


@pytest.mark.parametrize("page", fill_figures.PAGES, ids=lambda page: page.name)
def test_page_shows_what_the_files_say(page):
    text = page.read_text()
    assert fill_figures.filled(text) == text


@pytest.mark.parametrize("name", PICTURES)
def test_picture_shows_what_the_files_say(name):
    """Drawn anew it is the same, up to what another version of matplotlib would round."""
    drawn = Image.open(io.BytesIO(PICTURES[name].draw()))
    committed = Image.open(fill_figures.picture_file(name))
    assert drawn.size == committed.size
    old, new = (np.asarray(image.convert("L"), float) for image in (committed, drawn))
    assert (abs(new - old) > 8).mean() < 1e-4


def test_every_picture_stands_on_a_page():
    pages = "".join(page.read_text() for page in fill_figures.PAGES)
    shown = re.findall(r"!\[[^\]]*\]\((?:docs/)?images/([\w/-]+)\.png\)", pages)
    assert sorted(shown) == sorted(PICTURES)
    committed = fill_figures.ROOT.glob("docs/images/**/*")
    assert sum(path.is_file() for path in committed) == len(PICTURES)


@pytest.mark.parametrize("page", fill_figures.PAGES, ids=lambda page: page.name)
def test_no_picture_or_figure_stands_outside_of_the_markers(page):
    text = page.read_text()
    assert text.count("<!-- figures: ") == text.count("<!-- end -->")
    outside = fill_figures.MARKED.sub("", text)
    assert "![" not in outside and "<!--" not in outside
    heads = re.findall(r"^(\|.*\|)\n\|[ :|-]+\|$", outside, flags=re.MULTILINE)
    assert set(heads) <= TABLES_OF_WORDS


def test_every_section_stands_on_a_page():
    pages = "".join(page.read_text() for page in fill_figures.PAGES)
    shown = re.findall(r"<!-- figures: ([\w-]+) -->", pages)
    assert sorted(set(shown)) == sorted(fill_figures.SECTIONS)


def test_equations_are_found_in_code_and_tests():
    """Each `eq. N` of docs/maths.md is cited where it is implemented and where it is tested."""
    root = Path(__file__).parents[1]
    maths = (root / "docs" / "maths.md").read_text()
    numbers = re.findall(r"\| eq\. (\d+) \|", maths)
    assert numbers == ["2", "3", "4", "5", "6", "7", "10", "11", "12"]
    for place in ("src", "tests"):
        text = "".join(file.read_text() for file in (root / place).rglob("*.py"))
        cited = set(re.findall(r"eq(?:s?\. |_)(\d+)", text))
        assert not set(numbers) - cited, place


def profiled(network, variant, wall):
    """A record of a profile, made of a few kernels."""
    from binaryrelax.lab.bench.floors import Rates, Work
    from binaryrelax.lab.bench.kinds import Kind
    from binaryrelax.lab.bench.profile import breakdown

    events = [("sm90_xmma_fprop", 60.0), ("sum_magnitudes", 6.0), ("Memset (Device)", 2.0)]
    work = {
        Kind.PRODUCTS: Work(bytes=10_000_000, operations=2_000_000_000),
        Kind.UPDATE: Work(bytes=3_000_000),
    }
    parts = breakdown(events, wall, work, Rates(1e12, 1e14), num_steps=1)
    return {"network": network, "variant": variant, **parts}


def test_profile_is_shown_as_a_table_for_each_network():
    pytest.importorskip("triton")
    records = [
        profiled(network, variant, wall)
        for network, wall in (("resnet20", 80.0), ("vgg16", 64.0))
        for variant in ("binary", "ternary-exact")
    ]
    profile = {"steps": 20, "bytes_per_second": 1e12, "operations_per_second": 1e14}
    content = {
        "environment": {"device": "a device", "torch": "2.11.0"},
        "profile": {**profile, "records": records},
    }
    text = profile_tables(json.loads(json.dumps(content)))
    lines = text.splitlines()
    assert "| resnet20, 1 bit: 80 µs, 3 kernels and copies | time | share |" in lines[0]
    products = "60.0 µs | 75.0 % | 10.0 MB, 2.0 GFLOP | 20.0 µs | 3.0 |"
    assert f"| convolutions and matrix products | {products}" in lines
    assert "| optimizer and relaxation | 6.0 µs | 7.5 % | 3.0 MB | 3.0 µs | 2.0 |" in lines
    update = "6.0 µs | 9.4 % | 3.0 MB | 3.0 µs | 2.0 |"
    assert "| memory copies and sets | 2.0 µs | 2.5 % | - | - | - |" in lines
    assert "| idle between kernels | 12.0 µs | 15.0 % | - | - | - |" in lines
    assert f"| *optimizer and relaxation, exact ternary* | {update}" in lines
    assert "Under the profiler, kernels add up to 4 µs more than the step." in lines
    assert "1.00 TB/s" in lines[-1] and "100 TFLOP/s" in lines[-1]


def test_a_profile_that_is_not_there_is_said():
    assert profile_tables({"environment": {}}) == "Not measured yet."
    assert profile_tables({"profile": None}) == "Not measured yet."
