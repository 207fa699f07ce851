"""The code that README and docs show runs as it stands."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "CONTRIBUTING.md"]


def code_of(page):
    """All Python of a page: a block may go on where the one before it ended."""
    return "".join(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))


@pytest.mark.parametrize("page", [p for p in PAGES if code_of(p)], ids=lambda page: page.name)
def test_python_of_the_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {}
    exec(compile(code_of(page), page.name, "exec"), namespace)
    assert namespace


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_files_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name}: {target}"
