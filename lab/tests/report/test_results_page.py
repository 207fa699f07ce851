"""`binaryrelax report`: what is computed from results, and what the page says."""

import json
import re
from pathlib import Path
from statistics import fmean, stdev

import pytest
from lab.tests.support.made_up import made_up_layers, made_up_result, write_result
from lab.tests.support.outline import Outline, assert_needs_no_network, data_of

from binaryrelax_lab.recipes import (
    TABLES,
    cifar10_resnet20,
    cifar100_vgg16,
    demo_binary,
    imagenet_resnet18,
)
from binaryrelax_lab.recipes.search import tried
from binaryrelax_lab.report.network_tables import against_the_paper
from binaryrelax_lab.report.results_page import results_page, write_report
from binaryrelax_lab.results import collect_runs
from binaryrelax_lab.results.grids import by_recipe, paper_grids

RESULTS = Path(__file__).parents[3] / "results"
LASTS = {"float": 92.0, "bwn": 87.0, "binary": 88.0, "twn": 90.5, "ternary": 90.0}


def write_row(folder, row, *, seeds=1, lasts=LASTS):
    for method, last in lasts.items():
        for seed in range(seeds):
            write_result(folder, made_up_result(row(method), seed=seed, last=last + 0.1 * seed))


def page_of(folder):
    return results_page(collect_runs(folder))


def lines_of(page, network):
    """The table lines of a network, as text."""
    body = next(
        body
        for body in re.findall(r"<tbody>(.*?)</tbody>", page, re.DOTALL)
        if f"<b>{network}</b>" in body
    )
    rows = re.findall(r"<tr.*?</tr>", body)
    return [" ".join(re.sub(r"<[^>]+>", " ", row).split()) for row in rows]


def test_recalibrated_figures_are_shown_where_runs_have_them(tmp_path):
    write_row(tmp_path, cifar10_resnet20, seeds=2)
    before = page_of(tmp_path)
    for method, seeds in (("bwn", [0]), ("binary", [0, 1])):
        for seed in seeds:
            result = made_up_result(cifar10_resnet20(method), seed=seed)
            result["summary"]["last_recalibrated"] = 89.0 + seed
            write_result(tmp_path, result)
    page = page_of(tmp_path)
    assert lines_of(page, "ResNet-20")[4] == (
        "last, recalibrated not measured 89.00 (1 seed) 89.50 ± 0.71 not measured not measured"
    )
    note = "statistics of batch normalization"
    assert note in page and note not in before


def test_cells_show_paper_last_best_and_seeds(tmp_path):
    write_row(tmp_path, cifar10_resnet20, seeds=3)
    assert lines_of(page_of(tmp_path), "ResNet-20") == [
        "ResNet-20 paper 92.68 87.44 87.82 88.65 90.07",
        "best of Phase II 92.40 ± 0.10 87.40 ± 0.10 88.40 ± 0.10 90.90 ± 0.10 90.40 ± 0.10",
        "best − paper −0.28 −0.04 +0.58 +2.25 +0.33",
        "last epoch 92.10 ± 0.10 87.10 ± 0.10 88.10 ± 0.10 90.60 ± 0.10 90.10 ± 0.10",
        "seeds 3 3 3 3 3",
    ]


def test_the_higher_of_both_methods_is_bold(tmp_path):
    write_row(tmp_path, cifar10_resnet20)
    bold = set(re.findall(r"<strong>(.*?)</strong>", page_of(tmp_path)))
    assert bold == {"88.30", "88.00", "90.80", "90.50"}


def test_bold_looks_at_the_seeds_that_both_have(tmp_path):
    for method, seed, accuracy in (("bwn", 0, 80.0), ("binary", 0, 81.0), ("bwn", 1, 99.0)):
        result = made_up_result(cifar10_resnet20(method), seed=seed, last=accuracy)
        write_result(tmp_path, result)
    bold = set(re.findall(r"<strong>(.*?)</strong>", page_of(tmp_path)))
    assert bold == {"81.30", "81.00"}


def test_a_setting_can_make_another_method(tmp_path):
    """λ = ∞ from the start is BinaryConnect, and the nearest point of Q is the exact projection."""
    for settings in ({"initial_strength": "inf"}, {"quantizer": "Ternary()"}):
        recipe = cifar10_resnet20("ternary").with_settings(settings)
        write_result(tmp_path, made_up_result(recipe))
    write_report(tmp_path, tmp_path / "tables.md")
    text = (tmp_path / "tables.md").read_text()
    assert "| Network |  | TWN | BinaryRelax ternary, exact |" in text


def test_a_pair_that_two_tables_show_is_counted_once(tmp_path):
    write_row(tmp_path, cifar10_resnet20)
    before = page_of(tmp_path)
    write_result(tmp_path, made_up_result(cifar10_resnet20("ternary-exact")))
    [counted] = set(re.findall(r"ahead in \d of \d comparisons", before + page_of(tmp_path)))
    assert counted.endswith("of 2 comparisons")


def test_exactly_as_near_as_allowed_is_near(tmp_path):
    result = made_up_result(cifar10_resnet20("ternary"), last=90.07 - 0.3 - 0.3)
    write_result(tmp_path, result)
    [grid, *_] = paper_grids(by_recipe(collect_runs(tmp_path).runs))
    assert "at most 0.3 points below: 1." in against_the_paper(grid)


def test_tables_alone_as_markdown(tmp_path):
    write_row(tmp_path, cifar10_resnet20, seeds=3)
    write_report(tmp_path, tmp_path / "tables.md")
    lines = (tmp_path / "tables.md").read_text().splitlines()
    assert lines[0] == "## Table 1: CIFAR-10" and "## Table 2: CIFAR-100" not in lines
    assert "| **ResNet-20** | paper | 92.68 | 87.44 | 87.82 | 88.65 | 90.07 |" in lines
    bold = "| 87.10 ± 0.10 | **88.10 ± 0.10** | **90.60 ± 0.10** | 90.10 ± 0.10 |"
    assert f"|  | last epoch | 92.10 ± 0.10 {bold}" in lines
    assert "binaryrelax train DATASET-NETWORK-METHOD --seed N" in lines[-2]
    assert "binaryrelax report FOLDER --out FILE.md" in lines[-1]
    against = next(line for line in lines if line.startswith("Cells of BinaryRelax"))
    assert "have been run: 2. Above the paper's figure by the best of Phase II: 2." in against


@pytest.mark.parametrize(
    ("device", "deterministic", "is_told"),
    [("a GPU", False, True), ("a GPU", True, False), ("x86_64", False, False)],
)
def test_markdown_tells_of_machines_whose_bits_do_not_repeat(
    tmp_path, device, deterministic, is_told
):
    result = made_up_result(cifar10_resnet20("binary"))
    made = {"torch": "2.99", "precision": "bf16", "platform": "Linux x86_64"}
    result["environment"] = {**made, "device": device, "deterministic": deterministic}
    write_result(tmp_path, result)
    write_report(tmp_path, tmp_path / "tables.md")
    note = "Made on a GPU in bf16 with torch 2.99. The order of additions is not fixed"
    assert (note in (tmp_path / "tables.md").read_text()) is is_told


def test_markdown_says_that_held_out_images_are_no_test_images(tmp_path):
    write_result(tmp_path, made_up_result(tried("binary", {})))
    write_report(tmp_path, tmp_path / "tables.md")
    text = (tmp_path / "tables.md").read_text()
    assert "Those with held_out are judged by held-out training images." in text
    assert "held\\_out=5000@100" in text


def test_missing_cells_are_shown_as_missing(tmp_path):
    write_row(tmp_path, cifar10_resnet20, lasts={"bwn": 87.0})
    page = page_of(tmp_path)
    assert "best of Phase II missing 87.30 missing missing missing" in lines_of(page, "ResNet-20")
    for number, table in enumerate(TABLES.values(), 1):
        assert f"Table {number}" in page
        for recipe in table.recipes:
            assert f"{recipe.paper_accuracy:.2f}" in page
    assert lines_of(page, "ResNet-110") == [
        "ResNet-110 paper (no runs yet) 73.21 68.67 69.85 68.95 72.32"
    ]


def test_headline_counts_the_comparisons_that_binaryrelax_wins(tmp_path):
    write_row(tmp_path, cifar10_resnet20, seeds=3)
    text = Outline(page_of(tmp_path)).all_text
    assert "At the last epoch BinaryRelax is ahead in 1 of 2 comparisons" in text
    assert "By the best epoch of Phase II it is ahead in 1." in text
    assert "Of the 2 with 3 or more seeds it is ahead in 1 and behind in 1 by more than" in text
    assert "15 runs of 5 recipes." in text
    assert "12 of the 12 quantized networks, read back from disk, lie exactly" in text
    assert "Of the 65 cells of the paper's three tables, 5 have runs" in text


@pytest.mark.parametrize("seeds", [1, 2])
def test_a_few_seeds_claim_nothing_about_chance(tmp_path, seeds):
    write_row(tmp_path, cifar10_resnet20, seeds=seeds)
    text = Outline(page_of(tmp_path)).all_text
    assert "With fewer than 3 seeds each, nobody knows how much of it is chance" in text


def test_imagenet_shows_top5_too(tmp_path):
    write_result(tmp_path, made_up_result(imagenet_resnet18("binary"), last=63.0))
    lines = lines_of(page_of(tmp_path), "ResNet-18")  # the first is that of Table 1
    assert lines[0].startswith("ResNet-18 paper (no runs yet) 95.49")
    page = page_of(tmp_path).partition("Table 3: ImageNet")[2]
    lines = lines_of(page, "ResNet-18")
    assert "top-5, paper 89.00 83.00 85.10 84.20 87.30" in lines
    assert "top-5, last missing missing 70.00 missing missing" in lines


def test_every_run_of_the_repository_is_on_the_page(tmp_path):
    summary = write_report(RESULTS, tmp_path / "new" / "report.html")
    files = list(RESULTS.rglob("seed*.json"))
    assert summary.num_runs == len(files)
    assert summary.notes == ()
    page = (tmp_path / "new" / "report.html").read_text()
    for file in files:
        assert file.relative_to(RESULTS).as_posix() in page
    lasts = [json.loads(f.read_text())["summary"]["last"] for f in RESULTS.rglob("demo-twn/*")]
    assert f"{fmean(lasts):.2f} ± {stdev(lasts):.2f}" in page


def test_charts_pair_each_method_with_its_baseline(tmp_path):
    write_row(tmp_path, cifar100_vgg16, seeds=2)
    binary, ternary = data_of(page_of(tmp_path))["charts"].values()
    assert [curve["label"] for curve in binary["curves"]] == ["BWN", "BinaryRelax binary"]
    assert [curve["label"] for curve in ternary["curves"]] == ["TWN", "BinaryRelax ternary"]
    curve = binary["curves"][1]
    assert (curve["values"][-1], curve["low"][-1], curve["high"][-1]) == (88.05, 88.0, 88.1)
    assert len(curve["values"]) == 300
    assert len(curve["hard"]) == len(binary["strengths"]) == 240
    assert binary["strengths"][-1] == pytest.approx(1.02**239, rel=1e-2)


def test_run_section_tells_settings_environment_and_layers(tmp_path):
    result = made_up_result(cifar10_resnet20("ternary"), seed=7)
    write_result(tmp_path, result)
    text = Outline(page_of(tmp_path)).all_text
    assert "Seed 7 last 90.00 %, best 90.30 %, in Q, 60 s" in text
    assert "TernaryThreshold(ratio=0.7)" in text
    assert "cifar10/cifar10-resnet20-ternary/seed7.json" in text
    assert "conv2.weight 1,000 3 yes" in text
    assert "device made up" in text


def test_page_is_well_formed_and_needs_no_network(tmp_path):
    write_row(tmp_path, cifar10_resnet20, seeds=2)
    page = page_of(tmp_path)
    assert_needs_no_network(page)
    assert "{{" not in page
    attributes = Outline(page).attributes
    names = [value for name, value in attributes if name == "id"]
    assert len(names) == len(set(names))
    assert {value[1:] for name, value in attributes if name == "href"} <= set(names)


def test_page_escapes_what_it_is_given(tmp_path):
    hostile = '</script><script>alert("x")</script>{{css}}'
    result = made_up_result(cifar10_resnet20("binary"))
    result["recipe"] |= {"name": hostile, "method": hostile, "network": hostile}
    result["environment"] = {hostile: hostile}
    result["weights"]["layers"][0]["name"] = hostile
    (tmp_path / "result.json").write_text(json.dumps(result))
    page = page_of(tmp_path)
    Outline(page)
    assert "<script>alert" not in page
    assert page.count("</script>") == 2


def test_markdown_escapes_what_it_is_given(tmp_path):
    result = made_up_result(cifar10_resnet20("binary"))
    result["recipe"] |= {"name": "<script>\nx|y**z_`", "method": "[a](b)", "quantizer": "None()"}
    (tmp_path / "result.json").write_text(json.dumps(result))
    write_report(tmp_path, tmp_path / "tables.md")
    lines = (tmp_path / "tables.md").read_text().splitlines()
    assert r"| Network |  | \[a\](b) |" in lines
    first = r"| **&lt;script&gt; x\|y\*\*z\_\`** | best of Phase II | 90.30 |"
    assert first in lines


def test_curves_that_never_leave_one_hundred_percent_are_drawn(tmp_path):
    result = made_up_result(demo_binary())
    for record in result["epochs"]:
        record["accuracy"] = 100.0
    write_result(tmp_path, result)
    Outline(page_of(tmp_path))


@pytest.mark.slow
def test_page_of_several_hundred_long_runs_stays_small(tmp_path):
    for recipe in (recipe for table in TABLES.values() for recipe in table.recipes):
        for seed in range(6):
            result = made_up_result(recipe, seed=seed, last=85 + seed / 10)
            result["weights"]["layers"] = made_up_layers(recipe, count=40)
            write_result(tmp_path, result)
    summary = write_report(tmp_path, tmp_path / "report.html")
    assert summary.num_runs == 65 * 6
    assert (tmp_path / "report.html").stat().st_size < 10e6
