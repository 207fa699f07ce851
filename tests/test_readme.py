"""README is short, its code runs, its links lead somewhere; so do those of the other pages."""

import re
import subprocess
from pathlib import Path

import pytest
from tools.prose_statistics import LONG, num_words, sentences

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
MOST_LINES = 130
PAGES = [
    README,
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "CONTRIBUTING.md",
    ROOT / "networks" / "README.md",
]
BLOCK = re.compile(
    r"^(?:<!-- (?P<mark>[^>]*) -->\n+)?```(?P<kind>\w*)\n(?P<code>.*?)^```$", re.M | re.S
)
NOT_HERE = ("not run: ", "run: ")  # with a reason; or with libraries that are not there


def blocks_of(page, kind):
    """Mark and code of each block of a kind."""
    found = BLOCK.finditer(page.read_text())
    return [(block["mark"] or "", block["code"]) for block in found if block["kind"] == kind]


def code_of(page):
    """All Python of a page that runs here: a block may go on where the one before it ended."""
    return "".join(c for mark, c in blocks_of(page, "python") if not mark.startswith(NOT_HERE))


def name_of(page):
    return str(page.relative_to(ROOT))


def test_readme_is_a_front_door():
    assert len(README.read_text().splitlines()) <= MOST_LINES


def test_no_sentence_of_readme_is_long():
    lengths = {sentence: num_words(sentence) for sentence in sentences(README.read_text())}
    assert len(lengths) > 20
    assert not {sentence: n for sentence, n in lengths.items() if n > LONG}


@pytest.mark.parametrize("page", [p for p in PAGES if code_of(p)], ids=name_of)
def test_python_of_the_page_runs(page, tmp_path, monkeypatch):
    (tmp_path / "networks").symlink_to(ROOT / "networks")
    monkeypatch.chdir(tmp_path)
    namespace = {}
    exec(compile(code_of(page), page.name, "exec"), namespace)
    assert namespace


def test_shell_blocks_of_readme_run_or_say_why_not(tmp_path):
    blocks = blocks_of(README, "sh")
    assert blocks and not blocks_of(README, "")
    for mark, code in blocks:
        if mark == "run":
            subprocess.run(["bash", "-ec", code], cwd=tmp_path, check=True, timeout=60)
        else:
            assert re.fullmatch(r"not run: \S.*", mark), code


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
