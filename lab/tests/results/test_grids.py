"""Which runs stand in which table."""

from lab.tests.support.made_up import made_up_result, write_result

from binaryrelax_lab.recipes import OUR_TABLES, cifar10_resnet20, demo_binary
from binaryrelax_lab.report.results_page import results_page
from binaryrelax_lab.results import collect_runs
from binaryrelax_lab.results.grids import by_recipe, our_grids, paper_grids


def test_tuned_recipes_stand_beside_the_float_network_that_they_start_from(tmp_path):
    for recipe in OUR_TABLES["cifar10-tuned"].recipes:
        write_result(tmp_path, made_up_result(recipe))
    plus, tuned = our_grids(by_recipe(collect_runs(tmp_path).runs))
    assert (plus.title, tuned.title) == ("CIFAR-10, plus", "CIFAR-10, tuned")
    assert [cell.paper for cell in tuned.rows[0].cells] == [92.68, 87.44, 87.82, 88.65, 90.07]
    assert all(cell.runs for cell in tuned.rows[0].cells)


def test_variations_stand_in_tables_of_their_own(tmp_path):
    for method in ("float", "bwn", "binary", "twn", "ternary"):
        write_result(tmp_path, made_up_result(cifar10_resnet20(f"{method}-plus")))
    exact = cifar10_resnet20("ternary-exact")
    changed = cifar10_resnet20("binary").with_settings({"lr": "0.05"})
    for recipe in (exact, changed, demo_binary(), demo_binary().with_epochs(12)):
        write_result(tmp_path, made_up_result(recipe))
    runs = by_recipe(collect_runs(tmp_path).runs)
    assert not any(row.has_runs for grid in paper_grids(runs) for row in grid.rows)
    assert [(grid.title, [row.label for row in grid.rows]) for grid in our_grids(runs)] == [
        ("CIFAR-10, exact ternary", ["ResNet-20"]),
        ("CIFAR-10, plus", ["ResNet-20"]),
        ("Demo", ["Small conv net"]),
        ("Other lengths and settings", ["cifar10-resnet20+lr=0.05", "demo@12"]),
    ]
    assert "paper, its schedule" in results_page(collect_runs(tmp_path))
