"""Every code block of every page runs, or says why not.

Blocks of a page run in order, in one namespace, in a folder that holds the trained networks alone.
`<!-- run: peers -->` above a block leaves it to `make test-peers`, which runs such a page whole.
"""

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, blocks_of, name_of

RUNNER = Path(__file__).with_name("run_blocks.py")
MOST_SECONDS = 120
BLOCKS = {page: blocks_of(page.read_text()) for page in PAGES}
PLAIN = [p for p in PAGES if any(b.runs and not b.is_for_peers for b in BLOCKS[p])]
FOR_PEERS = [p for p in PAGES if any(b.runs and b.is_for_peers for b in BLOCKS[p])]


def run_page(page, blocks, folder):
    request = {"page": str(page), "blocks": [asdict(block) for block in blocks]}
    (folder / "networks").symlink_to(ROOT / "networks")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", RUNNER],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"},
        timeout=MOST_SECONDS,
    )
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("page", PLAIN, ids=name_of)
def test_blocks_of_the_page_run(page, tmp_path):
    run_page(page, [b for b in BLOCKS[page] if b.runs and not b.is_for_peers], tmp_path)


@pytest.mark.peers
@pytest.mark.parametrize("page", FOR_PEERS, ids=name_of)
def test_blocks_of_the_page_run_with_other_libraries(page, tmp_path):
    run_page(page, [b for b in BLOCKS[page] if b.runs], tmp_path)


@pytest.mark.parametrize("page", [p for p in PAGES if BLOCKS[p]], ids=name_of)
def test_every_block_runs_or_says_why_not(page):
    problems = [f"line {b.line}: {b.problem}" for b in BLOCKS[page] if b.problem]
    assert not problems


def test_a_failing_block_is_found_and_its_line_named(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n```python\nx = 1\n```\n\n```python\nassert x == 2, 'not two'\n```\n")
    with pytest.raises(AssertionError, match=r"page\.md.*line 8[\s\S]*not two"):
        run_page(page, blocks_of(page.read_text()), tmp_path)


def test_marks_are_read():
    text = (
        "<!-- run -->\n```sh\na\n```\n\n<!-- not run: slow -->\n```python\nb\n```\n```sh\nc\n```\n"
    )
    run, not_run, unmarked = blocks_of(text)
    assert run.runs and not run.problem
    assert not not_run.runs and not not_run.problem
    assert unmarked.problem
