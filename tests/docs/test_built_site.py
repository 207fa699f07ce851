"""The built site, read from files: nothing is fetched, search finds, phones fit.

`make docs` builds it; without build/site these tests are skipped.
"""

import html
import json
import re
import shutil
import subprocess
import sys

import pytest
from tools.check_site import outside_references

from tests.docs.pages import ROOT

SITE = ROOT / "build" / "site"
BROWSER = shutil.which("chromium")
OPTIONS = (
    "--headless=new --no-sandbox --disable-gpu --no-first-run --dump-dom --hide-scrollbars "
    "--disable-background-networking --disable-component-update --disable-sync "
    "--virtual-time-budget=8000 --window-size=1280,900"
)
SEARCH = """<script>addEventListener("load", () => setTimeout(() => {
  const input = document.querySelector(".md-search__input");
  input.focus();
  input.value = "fold_batchnorm";
  const send = (name) => input.dispatchEvent(new Event(name, {bubbles: true}));
  ["input", "keyup", "change"].forEach(send);
  setTimeout(() => {
    const links = [...document.querySelectorAll(".md-search-result__link")];
    const fetched = performance.getEntriesByType("resource").map((entry) => entry.name);
    document.body.dataset.seen = JSON.stringify({links: links.map((a) => a.href), fetched});
  }, 3000);
}, 1500));</script></body>"""
FRAME = """<!doctype html><body><iframe src="{page}" width="390" height="844"></iframe><script>
addEventListener("load", () => setTimeout(() => {{
  const root = document.querySelector("iframe").contentDocument.documentElement;
  document.body.dataset.seen = JSON.stringify([root.scrollWidth, root.clientWidth]);
}}, 1500));</script></body>"""

built = pytest.mark.skipif(not (SITE / "index.html").is_file(), reason="`make docs` builds it")
needs_browser = pytest.mark.skipif(BROWSER is None, reason="needs the browser chromium")


def seen_on(page, folder, *more):
    command = [BROWSER, *OPTIONS.split(), *more, f"--user-data-dir={folder}/profile", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    found = re.search(r'data-seen="([^"]*)"', done.stdout)
    assert found, done.stderr[-500:]
    return json.loads(html.unescape(found[1]))


@built
def test_the_site_fetches_nothing_from_other_hosts():
    command = [sys.executable, ROOT / "tools" / "check_site.py", SITE]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("name", "content"),
    {
        "a.html": '<script src="https://unpkg.com/mermaid"></script>',
        "b.html": '<link rel="stylesheet" href="//fonts.example/css">',
        "c.css": "@font-face { src: url(https://fonts.example/a.woff2) }",
        "d.js": 'load("https://unpkg.com/mermaid@11/dist/mermaid.min.js")',
    }.items(),
)
def test_a_foreign_script_style_or_font_is_found(name, content, tmp_path):
    (tmp_path / name).write_text(content)
    assert outside_references(tmp_path / name)
    (tmp_path / "fine.html").write_text('<a href="https://example.org">a link is none</a>')
    assert not outside_references(tmp_path / "fine.html")


@built
@needs_browser
def test_search_works_from_files(tmp_path):
    site = shutil.copytree(SITE, tmp_path / "site")
    page = site / "index.html"
    page.write_text(page.read_text().replace("</body>", SEARCH))
    seen = seen_on(page, tmp_path)
    assert any("reference/packed.html" in link for link in seen["links"]), seen
    assert not [name for name in seen["fetched"] if name.startswith(("http", "ws:", "wss:"))]


@built
@needs_browser
@pytest.mark.parametrize("page", ["index", "reference/training", "reference/file-format"])
def test_a_phone_needs_no_sideways_scroll(page, tmp_path):
    frame = tmp_path / "frame.html"
    frame.write_text(FRAME.format(page=(SITE / f"{page}.html").as_uri()))
    scrolled, shown = seen_on(frame, tmp_path, "--allow-file-access-from-files")
    assert scrolled <= shown
