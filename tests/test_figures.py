"""Figures in README and docs are those of the committed JSON files."""

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
import fill_figures


@pytest.mark.parametrize("page", fill_figures.PAGES, ids=lambda page: page.name)
def test_page_shows_what_the_files_say(page):
    text = page.read_text()
    assert "<!-- figures:" in text
    assert fill_figures.filled(text) == text


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
