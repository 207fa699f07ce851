"""The evidence is plain data, and says what the tests say."""

import ast
import json
from pathlib import Path

import pytest

from binaryrelax_lab.studies.theory import statement_table, theorem
from binaryrelax_lab.studies.theory.alpha import alpha_ranges

ROOT = Path(__file__).parents[4]
LABELS = {
    "prop:global", "prop:approx_quant", "thm:local", "thm", "lem:othor", "lem:upper",
    "lem:descent",
    "lem:alt_update", "lem:alt_update, local minimizer",
    "prop:alpha, short steps", "prop:alpha, zero",
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def few_steps():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statement_table, "NUM_CASES", 60)
        patch.setattr(statement_table, "NUM_PROBLEMS", 10)
        patch.setattr(theorem, "PAIRS", theorem.PAIRS[:1])
        yield


def plain(data):
    """Through JSON and back: no NaN, no tensor."""
    return json.loads(json.dumps(data, allow_nan=False))


def names_in(file):
    return {node.name for node in ast.parse(file.read_text()).body if hasattr(node, "name")}


def test_every_statement_has_a_row_that_names_its_test():
    rows = plain(statement_table.statements())["statements"]
    assert {row["label"] for row in rows} >= LABELS
    for row in rows:
        file, test = row["test"].split("::")
        assert test in names_in(ROOT / file), row
        assert row["cases"] > 0 or row["label"] == "prop:alpha, zero"
        assert ("counterexample" in row) == (row["failures"] > 0), row
        assert (row["result"].startswith("holds")) == (row["failures"] == 0), row


def test_theorem_lists_both_sides_of_its_inequality():
    found = plain(theorem.theorem())
    for row in found["center_in_q"]:
        assert row["obeys_step_rule"] and row["line_changes"][0] >= 10
        assert row["limit_inferior"] <= row["bound"]
    for row in found["center_not_in_q"]:
        assert not row["obeys_step_rule"] and row["line_changes_in_the_tail"] > 100
    assert found["without_noise"]["limit_inferior"] > found["without_noise"]["bound"] == 0


@pytest.mark.slow
def test_ranges_of_alpha_come_from_runs_that_change_line():
    found = plain(alpha_ranges())
    for row in found["one_scale"]:
        assert row["line_changes"] >= 10
        is_heuristic = "Threshold" in row["quantizer"]
        assert (row["alpha"][0] < 0) == is_heuristic
        assert row["largest_error_from_1_between_changes"] < 1e-5
    for row in found["one_scale_per_layer"]:
        assert all(layer["line_changes"] >= 10 for layer in row["layers"])
    for row in found["demo"]:
        assert len(row["layers"]) == 4
        assert all(layer["line_changes"] >= 10 for layer in row["layers"])
