"""Relative links and anchors of the pages lead somewhere, in the site as on a code host."""

import re
from functools import cache
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, name_of, outside_of_blocks

LINK = re.compile(r"\]\(([^)\s]+)(?: +\"[^\"]*\")?\)|<(?:img|a)\b[^>]*?(?:src|href)=\"([^\"]+)\"")
OUTSIDE = re.compile(r"[a-z]+:")


def slug_of(heading: str) -> str:
    """The anchor of a heading, in the site (mkdocs.yml, `slugify`) as on a code host."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@cache
def anchors_of(page: Path) -> set[str]:
    """What a page can be linked by: headings, names that it documents, anchors of its own."""
    text = re.sub(r"^( *)(`{3,}).*?^ *\2 *$", "", page.read_text(), flags=re.M | re.S)
    headings = [re.sub(r"[`*]|\{#.*\}", "", h) for h in re.findall(r"^#+ (.*)$", text, re.M)]
    named = re.findall(r"(?:\bid=\"|\{#)([\w.-]+)", text)
    return {*map(slug_of, headings), *re.findall(r"^::: ([\w.]+)", text, re.M), *named}


def broken_links(page: Path) -> list[str]:
    """Links of a page that lead nowhere."""
    broken = []
    for target in ("".join(pair) for pair in LINK.findall(outside_of_blocks(page.read_text()))):
        if OUTSIDE.match(target):
            continue
        path, _, anchor = target.partition("#")
        goal = (page.parent / path).resolve() if path else page
        if not goal.exists() or (anchor and anchor not in anchors_of(goal)):
            broken.append(target)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    assert not broken_links(page)


def test_a_broken_link_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        '# One two\n[a](#one-two) [b](#three) [c](gone.md) `[d](code.md)` <img src="no.png">'
    )
    assert broken_links(page) == ["#three", "gone.md", "no.png"]
