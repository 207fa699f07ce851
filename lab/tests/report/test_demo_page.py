import math
import re
from dataclasses import replace

import pytest
from lab.tests.support.outline import Outline, assert_needs_no_network, data_of
from lab.tests.support.tiny import METHODS, tiny_data, tiny_recipe
from PIL import Image

from binaryrelax_lab.engine import Job, train
from binaryrelax_lab.recipes import RecipeName
from binaryrelax_lab.report.demo_page import demo_page, table_row
from binaryrelax_lab.report.demo_picture import write_picture
from binaryrelax_lab.results import read_run


@pytest.fixture(scope="module")
def runs(tiny_runs):
    return [read_run(tiny_runs / f"tiny-{method}") for method in METHODS]


@pytest.fixture(scope="module")
def page(runs):
    return demo_page(runs)


def test_page_shows_every_number_of_the_table(runs, page):
    text = " ".join(Outline(page).text)
    for run in runs:
        assert f"{run.summary.last:.2f} %" in text
        assert f"{run.summary.best_phase_two:.2f} %" in text
        for cell in table_row(run).cells():
            assert cell in text


def test_page_holds_the_curves_and_histograms_as_data(runs, page):
    data = data_of(page)
    [chart] = data["charts"].values()
    for curve, run in zip(chart["curves"], runs, strict=True):
        assert curve["values"] == [round(value, 2) for value in run.accuracies]
        assert curve["label"] == run.label
    assert chart["strengths"] == pytest.approx(runs[2].finite_strengths, rel=1e-2)
    layers = [run.histograms for run in runs[1:]]
    tallest = max(max(s.counts) / layer.num_weights for layer in layers for s in layer.snapshots)
    for moments, layer in zip(data["histograms"], layers, strict=True):
        for moment, snapshot in zip(moments, layer.snapshots, strict=True):
            shares = [count / layer.num_weights for count in snapshot.counts]
            heights = [146 - 124 * math.sqrt(share / tallest) for share in shares]
            drawn = [float(y) for y in re.findall(r"V([\d.]+)H", moment["outline"])]
            assert drawn == pytest.approx(heights, abs=0.051)
            assert len(moment["shares"]) == len(layer.codebook)


def test_page_needs_no_network(page):
    assert_needs_no_network(page)


def test_page_has_no_blanks_left(page):
    assert "{{" not in page


def test_page_escapes_what_it_is_given(runs):
    hostile = '</script><script>alert("x")</script>{{css}}'
    settings = {**runs[1].recipe.settings, "method": hostile, "name": hostile}
    changed = replace(
        runs[1],
        recipe=replace(runs[1].recipe, method=hostile, name=RecipeName(hostile), settings=settings),
        environment={**runs[1].environment, "device": hostile},
        histograms=replace(runs[1].histograms, layer=hostile),
    )
    page = demo_page([runs[0], changed, *runs[2:]])
    assert "<script>alert" not in page
    assert page.count("</script>") == 2


def test_page_of_some_runs_only(runs):
    for some in (runs[:1], runs[1:3]):
        page = demo_page(some)
        Outline(page)
        assert all(run.label in page for run in some)


def test_page_of_runs_without_histograms(runs):
    page = demo_page([replace(run, histograms=None) for run in runs])
    assert "slide into Q" not in Outline(page).all_text


def test_page_and_picture_of_runs_without_phase_one(tmp_path):
    for method in ("float", "binary"):
        recipe = tiny_recipe(method, epochs=1)
        train(Job(recipe, 0, tmp_path / method), tiny_data())
    runs = [read_run(tmp_path / method) for method in ("float", "binary")]
    sizes = [value for name, value in Outline(demo_page(runs)).attributes if name == "width"]
    assert sizes
    assert all(float(size) >= 0 for size in sizes)
    write_picture(tmp_path / "picture.png", runs)


def test_table_row_of_a_binary_network(runs):
    row = table_row(runs[2])
    assert row.label == "BinaryRelax binary"
    assert row.distance == 0
    assert row.bits_per_weight == pytest.approx(1.0013, abs=1e-4)
    assert row.layers_saving == pytest.approx(31.96, abs=0.01)
    assert table_row(runs[0]).distance is None


def test_picture_is_wide_and_small(runs, tmp_path):
    path = tmp_path / "picture.png"
    write_picture(path, runs)
    assert path.stat().st_size < 200_000
    with Image.open(path) as image:
        assert image.size == (1600, 700)
