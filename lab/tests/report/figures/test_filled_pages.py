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
TABLES_OF_WORDS = {  # written by hand: they hold no measured figure
    "| | enters your code as | weights | activations | a file at rest | take it for |",
    "| distribution | what it is | needs |",
    "| extra | brings |",
    "| what you see | what to do |",
    "| field | what it tells |",
    "| | |",
    "| letter | word in the code | meaning |",
    "| | what it says | implemented in | checked in |",
    "| claim | test |",
    "| | a byte holds, least significant first | code |",
    "| input | engine | computes |",
    "| status | meaning |",
    "| item | status | where |",
}
ANSWERS = "| question | answer | in figures, points of accuracy |"  # the last cell is computed

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
    assert {name.removesuffix(".png") for name in shown} == set(PICTURES)
    assert text.count("![") == len(shown)
    committed = ROOT.glob("docs/images/**/*")
    assert sum(path.is_file() for path in committed) == len(PICTURES)


@each_page
def test_a_picture_is_linked_from_where_the_page_is(page):
    links = re.findall(r"!\[[^\]]+\]\((.*?)\)", page.read_text())
    assert all((page.parent / link).is_file() for link in links)


@each_page
def test_no_figure_stands_outside_of_the_markers(page):
    text = page.read_text()
    assert text.count("<!-- figures: ") == text.count("<!-- end -->")
    outside = MARKED.sub("", text)
    assert not re.search(r"<!--(?! (?:run|not run)\b)", outside)  # these speak of code
    heads = re.findall(r"^(\|.*\|)\n\|[ :|-]+\|$", outside, flags=re.MULTILINE)
    assert set(heads) <= {*TABLES_OF_WORDS, ANSWERS}


def test_answers_are_prose_and_their_figures_are_computed():
    """Each row links the page of its question, and measures nothing outside of its last cell."""
    folder = ROOT / "docs" / "evidence"
    text = (folder / "index.md").read_text()
    rows = text[text.index(ANSWERS) :].partition("\n\n")[0].splitlines()[2:]
    assert len(rows) == 12
    for row in rows:
        parts = re.fullmatch(
            r"\| \[(.*)\]\((.*)\) \| (.*) \| (<!-- figures: .*<!-- end -->) \|", row
        )
        heading = (folder / parts[2]).read_text().partition("\n")[0]
        assert heading.removeprefix("# ").startswith(parts[1].removesuffix("?"))
        assert MARKED.fullmatch(parts[4])
        assert not re.search(r"\d\.\d", parts[3])


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
