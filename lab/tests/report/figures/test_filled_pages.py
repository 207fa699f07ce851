"""Figures in README and docs are those of the committed JSON files."""

import io
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from binaryrelax_lab.report.figures import Evidence, all_pictures, stale_files
from binaryrelax_lab.report.figures.filled_pages import (
    MARKED,
    SECTIONS,
    filled,
    pages,
    picture_file,
)
from binaryrelax_lab.studies.theory.catalogue import PARTS

ROOT = Path(__file__).parents[4]
EVIDENCE = Evidence(ROOT)
PAGES = pages(ROOT)
PICTURES = all_pictures({part.name: part.draw for part in PARTS if part.draw})
MADE_ELSEWHERE = {"file-layout.svg", "learn/weights"}  # drawn by hand; by an example
FIGURE = re.compile(r"\d[\d,]*\.\d+|\d ?(?:%|×|ms\b|µs\b)")
FACTS = {"1.6", "0.18", "1.58"}  # bits of five trits in a byte; names: nothing measured

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


@each_page
def test_page_shows_what_the_files_say(page):
    text = page.read_text()
    assert filled(text, EVIDENCE) == text


@pytest.mark.parametrize("name", PICTURES)
def test_picture_shows_what_the_files_say(name):
    """Drawn anew it is the same, up to what another version of matplotlib would round."""
    content, path = PICTURES[name](EVIDENCE), picture_file(ROOT, name)
    if path.suffix == ".svg":
        assert content == path.read_bytes()
        return
    drawn, committed = Image.open(io.BytesIO(content)), Image.open(path)
    assert drawn.size == committed.size
    old, new = (np.asarray(image.convert("L"), float) for image in (committed, drawn))
    assert (abs(new - old) > 8).mean() < 1e-4


def test_every_picture_stands_on_a_page_and_every_page_shows_drawn_ones_alone():
    text = "".join(page.read_text() for page in PAGES)
    shown = re.findall(r"!\[[^\]]*\]\([\w./]*?images/([\w/-]+\.(?:png|svg))\)", text)
    assert {name.removesuffix(".png") for name in shown} == {*PICTURES, *MADE_ELSEWHERE}
    assert text.count("![") == len(shown)
    committed = ROOT.glob("docs/images/**/*")
    assert sum(path.is_file() for path in committed) == len({*PICTURES, *MADE_ELSEWHERE})


@each_page
def test_a_picture_is_linked_from_where_the_page_is(page):
    links = re.findall(r"!\[[^\]]+\]\((.*?)\)", page.read_text())
    assert all((page.parent / link).is_file() for link in links)


@each_page
def test_no_figure_stands_outside_of_the_markers(page):
    """Tables written by hand hold words alone; code and what it prints may show what it wants."""
    text = page.read_text()
    assert text.count("<!-- figures: ") == text.count("<!-- end -->")
    outside = re.sub(r"^```.*?^```$|`[^`\n]*`", "", MARKED.sub("", text), flags=re.M | re.S)
    assert not re.search(r"<!--(?! (?:run|not run|commands)\b)", outside)
    rows = "\n".join(re.findall(r"^\|.*\|$", outside, flags=re.MULTILINE))
    assert set(FIGURE.findall(rows)) <= FACTS


def test_index_of_the_evidence_links_each_page_by_its_question():
    folder = ROOT / "docs" / "evidence"
    links = re.findall(r"\[([^\]]+)\]\((\S+\.md)\)", (folder / "index.md").read_text())
    assert {page for _, page in links} == {p.name for p in folder.glob("*.md")} - {"index.md"}
    for words, page in links:
        heading = (folder / page).read_text().partition("\n")[0].removeprefix("# ")
        assert not words.endswith("?") or heading.startswith(words.removesuffix("?"))


def test_every_section_stands_on_a_page():
    text = "".join(page.read_text() for page in PAGES)
    shown = re.findall(r"<!-- figures: ([\w-]+) -->", text)
    assert sorted(set(shown)) == sorted(SECTIONS)


def test_a_marker_within_a_line_stays_within_it():
    marker = "<!-- figures: theory-limit-without-noise -->"
    figure = SECTIONS["theory-limit-without-noise"](EVIDENCE)
    words = f"never below {marker}old<!-- end --> there"
    assert filled(words, EVIDENCE) == f"never below {marker}{figure}<!-- end --> there"
    alone = f"before\n\n{marker}<!-- end -->\n\nafter"
    made = f"before\n\n{marker}\n\n{figure}\n\n<!-- end -->\n\nafter"
    assert filled(alone, EVIDENCE) == filled(made, EVIDENCE) == made


def test_what_is_out_of_date_is_told_with_what_it_should_hold(tmp_path):
    for folder in ("results", "benchmarks"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    page, picture = tmp_path / "README.md", tmp_path / "docs" / "images" / "new.png"
    page.write_text("at <!-- figures: theory-limit-without-noise -->0.3<!-- end -->\n")
    stale = stale_files(Evidence(tmp_path), {"new": lambda _: b"drawn"})
    assert stale.keys() == {page, picture} and stale[picture] == b"drawn"
    page.write_bytes(stale[page])
    picture.parent.mkdir(parents=True)
    picture.write_bytes(b"drawn")
    assert not stale_files(Evidence(tmp_path), {"new": lambda _: b"drawn"})


@pytest.mark.slow
def test_script_finds_no_page_out_of_date():
    command = [sys.executable, "tools/fill_figures.py", "--check"]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert not shown.stderr and ".md: out of date" not in shown.stdout


def test_equations_are_found_in_code_and_tests():
    """Each `eq. N` of the page maths.md is cited where it is implemented and tested."""
    maths = (ROOT / "docs" / "under-the-hood" / "maths.md").read_text()
    numbers = re.findall(r"\| eq\. (\d+) \|", maths)
    assert numbers == ["2", "3", "4", "5", "6", "7", "10", "11", "12"]
    for place in ("src", "tests"):
        text = "".join(file.read_text() for file in (ROOT / place).rglob("*.py"))
        cited = set(re.findall(r"eq(?:s?\. |_)(\d+)", text))
        assert not set(numbers) - cited, place
