import copy
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest
from PIL import Image

from binaryrelax.lab.engine import train
from binaryrelax.lab.report import (
    FinishedRun,
    load_run,
    table_row,
    write_page,
    write_picture,
)
from binaryrelax.lab.report.page import page_html
from tests.lab.tiny import METHODS, tiny_data, tiny_recipe


@pytest.fixture(scope="module")
def runs(tiny_runs):
    return [load_run(tiny_runs / f"tiny-{method}") for method in METHODS]


@pytest.fixture(scope="module")
def page(runs):
    return page_html(runs)


class Outline(HTMLParser):
    """Collects text and attributes, and refuses elements that are closed in the wrong order."""

    VOID = frozenset({"meta", "input", "br", "link"})

    def __init__(self, page):
        super().__init__()
        self.open, self.attributes, self.text = [], [], []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_page_shows_every_number_of_the_table(runs, page):
    text = " ".join(Outline(page).text)
    for run in runs:
        summary = run.result["summary"]
        assert f"{summary['last']:.2f} %" in text
        assert f"{summary['best_phase_two']:.2f} %" in text
        for cell in table_row(run).cells():
            assert cell in text


def test_page_holds_the_curves_and_histograms_as_data(runs, page):
    data = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1]
    for shown, run in zip(json.loads(data), runs, strict=True):
        assert shown["epochs"] == run.result["epochs"]
        assert shown["histograms"] == run.histograms


def test_page_needs_no_network(page):
    assert "http" not in page
    names = {name for name, _ in Outline(page).attributes}
    assert not names & {"src", "href", "srcset"}
    assert "@import" not in page
    assert "url(" not in page


def test_page_has_no_blanks_left(page):
    assert "{{" not in page


def test_page_escapes_what_it_is_given(runs):
    hostile = '</script><script>alert("x")</script>{{css}}'
    result = copy.deepcopy(runs[1].result)
    result["recipe"] |= {"method": hostile, "name": hostile}
    result["environment"]["device"] = hostile
    histograms = {**runs[1].histograms, "layer": hostile}
    page = page_html([runs[0], FinishedRun(result, histograms), *runs[2:]])
    assert "<script>alert" not in page
    assert page.count("</script>") == 2


def test_page_of_some_runs_only(runs):
    for some in (runs[:1], runs[1:3]):
        page = page_html(some)
        Outline(page)
        assert all(run.label in page for run in some)


def test_page_and_picture_of_runs_without_phase_one(tmp_path):
    for method in ("float", "binary"):
        recipe = tiny_recipe(method, epochs=1)
        train(recipe, tiny_data(), seed=0, folder=tmp_path / method)
    runs = [load_run(tmp_path / method) for method in ("float", "binary")]
    sizes = [value for name, value in Outline(page_html(runs)).attributes if name == "width"]
    assert sizes
    assert all(float(size) >= 0 for size in sizes)
    write_picture(tmp_path / "picture.png", runs)


def test_table_row_of_a_binary_network(runs):
    row = table_row(runs[2])
    assert row.label == "BinaryRelax binary"
    assert row.distance == 0
    assert row.bits_per_weight == pytest.approx(1.0013, abs=1e-4)
    assert row.layers_kb_float / row.layers_kb == pytest.approx(31.96, abs=0.01)
    assert table_row(runs[0]).distance is None


def test_picture_is_wide_and_small(runs, tmp_path):
    path = tmp_path / "picture.png"
    write_picture(path, runs)
    assert path.stat().st_size < 200_000
    with Image.open(path) as image:
        assert image.size == (1600, 700)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs Debian's chromium")
def test_script_of_the_page_runs_in_a_real_browser(runs, tmp_path):
    page = tmp_path / "report.html"
    write_page(page, runs)
    poke = (
        '<script>const slider = document.getElementById("moment"); slider.value = 1;'
        'slider.dispatchEvent(new Event("input"));'
        'const svg = document.querySelector(".curves.w960"), box = svg.getBoundingClientRect();'
        'svg.dispatchEvent(new PointerEvent("pointermove", {clientX: box.right}));</script></body>'
    )
    page.write_text(page.read_text().replace("</body>", poke))
    options = (
        "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --dump-dom "
        "--disable-background-networking --disable-component-update --disable-sync "
        f"--window-size=1200,2000 --user-data-dir={tmp_path / 'profile'}"
    )
    command = ["chromium", *options.split(), page.as_uri()]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120).stdout
    assert "after epoch 1 of 4" in shown
    assert "After epoch 4 · Phase II · λ = ∞" in shown
    assert re.search(r'class="controls"(?! hidden)', shown)
