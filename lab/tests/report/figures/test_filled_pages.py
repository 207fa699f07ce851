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
    "| you want | you write |",
    "| | binaryrelax | torchao PARQ 0.18 | Brevitas | Larq | BitNet code |",
    "| | |",
    "| letter | word in the code | meaning |",
    "| | what it says | implemented in | checked in |",
    "| claim | test |",
    "| | a byte holds, least significant first | code |",
    "| input | engine | computes |",
    "| status | meaning |",
    "| item | status | where |",
}
RUN_OR_NOT = re.compile(r"<!-- (?:not run: .*|run(?:: peers)?) -->")  # of blocks of code
ANSWERS = "| question | answer | in figures, points of accuracy |"  # the last cell is computed
SETTINGS_IN_ANSWERS = {"0.9", "0.95"}  # momentum: chosen, not measured

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


@each_page
def test_page_shows_what_the_files_say(page):
    text = page.read_text()
    assert filled(text, EVIDENCE) == text


@pytest.mark.parametrize("name", PICTURES)
def test_picture_shows_what_the_files_say(name):
    """Drawn anew it is the same, up to what another version of matplotlib would round."""
    drawn = Image.open(io.BytesIO(PICTURES[name](EVIDENCE)))
    committed = Image.open(picture_file(ROOT, name))
    assert drawn.size == committed.size
    old, new = (np.asarray(image.convert("L"), float) for image in (committed, drawn))
    assert (abs(new - old) > 8).mean() < 1e-4


def test_every_picture_stands_on_a_page_and_every_page_shows_drawn_ones_alone():
    text = "".join(page.read_text() for page in PAGES)
    shown = re.findall(r"!\[[^\]]*\]\((?:docs/|\.\./)?images/([\w/-]+)\.png\)", text)
    assert sorted(shown) == sorted(PICTURES)
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
    assert "<!--" not in RUN_OR_NOT.sub("", outside)
    heads = re.findall(r"^(\|.*\|)\n\|[ :|-]+\|$", outside, flags=re.MULTILINE)
    assert set(heads) <= {*TABLES_OF_WORDS, ANSWERS}


def test_answers_are_prose_and_their_figures_are_computed():
    """In that table each row links its question, and measures nothing outside of its last cell."""
    text = (ROOT / "docs" / "findings.md").read_text()
    table = text[text.index(ANSWERS) :].partition("\n\n")[0]
    headings = re.findall(r"^## (.*)$", text, flags=re.MULTILINE)
    rows = table.splitlines()[2:]
    assert len(rows) == 9
    for row, heading in zip(rows, headings, strict=False):
        parts = re.fullmatch(
            r"\| \[(.*)\]\(#.*\) \| (.*) \| (<!-- figures: .*<!-- end -->) \|", row
        )
        assert parts[1] == heading
        assert MARKED.fullmatch(parts[3])
        assert {*re.findall(r"\d+\.\d+", parts[2])} <= SETTINGS_IN_ANSWERS


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
    """Each `eq. N` of docs/maths.md is cited where it is implemented and where it is tested."""
    maths = (ROOT / "docs" / "maths.md").read_text()
    numbers = re.findall(r"\| eq\. (\d+) \|", maths)
    assert numbers == ["2", "3", "4", "5", "6", "7", "10", "11", "12"]
    for place in ("src", "tests"):
        text = "".join(file.read_text() for file in (ROOT / place).rglob("*.py"))
        cited = set(re.findall(r"eq(?:s?\. |_)(\d+)", text))
        assert not set(numbers) - cited, place
