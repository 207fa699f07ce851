"""The pages in a real browser: their scripts run, hovering reads values, nothing is fetched."""

import re
import shutil
import subprocess

import pytest
from lab.tests.support.made_up import made_up_result, write_result
from lab.tests.support.tiny import METHODS

from binaryrelax_lab.recipes import cifar10_resnet20
from binaryrelax_lab.report.demo_page import write_page
from binaryrelax_lab.report.results_page import write_report
from binaryrelax_lab.results import read_run

BROWSER = shutil.which("chromium")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs the browser chromium")
OPTIONS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --dump-dom "
    "--disable-background-networking --disable-component-update --disable-sync"
)
WATCH = """<script>
const seen = [];
addEventListener("error", (event) => seen.push(`error: ${event.message}`));
addEventListener("securitypolicyviolation", (event) => seen.push(`blocked: ${event.blockedURI}`));
</script></head>"""
TELL = """<script>
addEventListener("load", () => setTimeout(() => {
  for (const entry of performance.getEntriesByType("resource")) seen.push(`fetched: ${entry.name}`);
  const tooWide = document.documentElement.scrollWidth > innerWidth;
  document.body.dataset.seen = JSON.stringify([...seen, tooWide ? "too wide" : "fits"]);
}, 50));
</script></body>"""


def shown_by_browser(page, poke, *, width=1200):
    """The page as the browser has it after its scripts and `poke` have run."""
    text = page.read_text()
    copy = page.with_name("poked.html")
    poke = f"<script>{poke}</script>{TELL}"
    copy.write_text(text.replace("</head>", WATCH, 1).replace("</body>", poke))
    command = [
        BROWSER, *OPTIONS.split(), f"--window-size={width},2000", "--virtual-time-budget=2000",
        f"--user-data-dir={page.with_name('profile')}", copy.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert "data-seen" in done.stdout, done.stderr[-500:]
    return done.stdout


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    for method, last in {"bwn": 87.0, "binary": 88.0, "twn": 89.0}.items():
        for seed in range(2):
            result = made_up_result(cifar10_resnet20(method), seed=seed, last=last + seed / 10)
            write_result(folder, result)
    write_report(folder, folder / "report.html")
    return folder / "report.html"


@pytest.mark.parametrize("width", [1200, 500])
def test_report_runs_without_errors_and_fits_the_window(report, width):
    shown = shown_by_browser(report, "", width=width)
    assert 'data-seen="[&quot;fits&quot;]"' in shown
    assert re.search(r'<input type="search" id="filter"[^>]*>', shown)
    assert "hidden" not in re.search(r'<input type="search" id="filter"[^>]*>', shown)[0]


def test_hovering_over_a_curve_reads_its_values(report):
    poke = """
    const svg = document.querySelector(".chart .curves"), box = svg.getBoundingClientRect();
    const move = (x) => svg.dispatchEvent(new PointerEvent("pointermove", {clientX: x}));
    move(box.right);
    """
    shown = shown_by_browser(report, poke)
    assert 'data-seen="[&quot;fits&quot;]"' in shown
    assert "After epoch 300 · Phase II · λ = ∞" in shown
    assert "88.05 %" in shown
    assert "88.00 to 88.10" in shown
    shown = shown_by_browser(report, poke.replace("box.right", "box.left"))
    assert "After epoch 1 · Phase I · λ = 1" in shown
    assert "if hard now" in shown


def test_legend_hides_a_curve_and_filter_hides_recipes(report):
    poke = """
    document.querySelector(".legend button").click();
    const box = document.getElementById("filter");
    box.value = "TWN";
    box.dispatchEvent(new Event("input"));
    const hidden = [...document.querySelectorAll(".recipe")].filter((recipe) => recipe.hidden);
    document.body.dataset.hidden = hidden.map((recipe) => recipe.dataset.name).join(" ");
    """
    shown = shown_by_browser(report, poke)
    assert 'data-seen="[&quot;fits&quot;]"' in shown
    assert 'data-hidden="cifar10-resnet20-bwn cifar10-resnet20-binary"' in shown
    assert shown.count("curve bwn away") == 1


def test_a_script_error_would_be_seen(report):
    """The checks above are not vacuous."""
    poke = 'fetch("https://example.invalid/x").catch(() => 0); missing();'
    shown = shown_by_browser(report, poke)
    assert "missing is not defined" in shown
    assert "blocked: https://example.invalid" in shown


def test_slider_and_curves_of_the_demo_page(tiny_runs, tmp_path):
    page = tmp_path / "report.html"
    write_page(page, [read_run(tiny_runs / f"tiny-{method}") for method in METHODS])
    poke = """
    const moment = document.getElementById("moment");
    moment.value = 1;
    moment.dispatchEvent(new Event("input"));
    const svg = document.querySelector(".curves.w960"), box = svg.getBoundingClientRect();
    svg.dispatchEvent(new PointerEvent("pointermove", {clientX: box.right}));
    """
    shown = shown_by_browser(page, poke)
    assert 'data-seen="[&quot;fits&quot;]"' in shown
    assert "after epoch 1 of 4" in shown
    assert "After epoch 4 · Phase II · λ = ∞" in shown
    assert re.search(r'class="controls"(?! hidden)', shown)
