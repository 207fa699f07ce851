"""The code that README and docs show runs as it stands."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "CONTRIBUTING.md",
    ROOT / "networks" / "README.md",
]


def code_of(page):
    """All Python of a page: a block may go on where the one before it ended."""
    return "".join(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))


def name_of(page):
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [p for p in PAGES if code_of(p)], ids=name_of)
def test_python_of_the_page_runs(page, tmp_path, monkeypatch):
    (tmp_path / "networks").symlink_to(ROOT / "networks")
    monkeypatch.chdir(tmp_path)
    namespace = {}
    exec(compile(code_of(page), page.name, "exec"), namespace)
    assert namespace


def anchors_of(page):
    """What the headings of a page can be linked by."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    for target, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", page.read_text()):
        if "://" not in target:
            goal = page.parent / target if target else page
            assert goal.exists(), target
            assert not anchor or anchor in anchors_of(goal), f"{target}#{anchor}"


ROOMS = ("", "src/binaryrelax", "src/binaryrelax/optim", "lab/binaryrelax_lab")
HOP = re.compile(r"^(?:pack|save|certify|load|export)? *([\w/]+\.py) +([\w.]+)", re.MULTILINE)


def test_walks_lead_through_functions_that_are_there():
    walks = (ROOT / "docs" / "under-the-hood" / "walks.md").read_text()
    hops = HOP.findall(walks)
    assert len(hops) > 60
    for file, name in hops:
        [path] = [ROOT / room / file for room in ROOMS if (ROOT / room / file).is_file()][:1]
        kind = r"(def|class) " + re.escape(name.split(".")[-1]) + r"\b"
        assert re.search(kind, path.read_text()), f"{file}: {name}"
