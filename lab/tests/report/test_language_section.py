"""Language models on the report page."""

from lab.tests.support.made_up import made_up_language_result, write_result

from binaryrelax_lab.recipes import find_recipe
from binaryrelax_lab.report.results_page import write_report

RECIPE = find_recipe("lm-small-relax-ternary")


def written(folder, *results):
    for result in results:
        write_result(folder, result)
    summary = write_report(folder, folder / "report.html")
    return summary, (folder / "report.html").read_text()


def test_losses_are_means_over_seeds(tmp_path):
    results = [made_up_language_result(RECIPE, seed=k, last=4.0 + k / 10) for k in (0, 1)]
    summary, page = written(tmp_path, *results)
    assert (summary.num_runs, summary.num_recipes, summary.notes) == (2, 1, ())
    assert "4.050 ± 0.071" in page and "2 runs of 1 recipe" in page


def test_what_the_network_writes_is_shown_and_escaped(tmp_path):
    result = made_up_language_result(RECIPE)
    result["summary"]["samples"][0]["text"] = " <b>that</b> she would"
    _, page = written(tmp_path, result)
    assert "<b>She said</b> &lt;b&gt;that&lt;/b&gt; she would" in page


def test_a_text_that_some_seeds_lack_is_left_out(tmp_path):
    results = [made_up_language_result(RECIPE, seed=k) for k in (0, 1)]
    texts = results[0]["summary"]["texts"]
    texts["wikipedia"] = texts["validation"]
    _, page = written(tmp_path, *results)
    assert "wikipedia" not in page
