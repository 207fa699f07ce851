"""Run times in processes of their own: a failure is one line, and nobody dies with them."""

import os

import pytest

from binaryrelax.export import isolated_runtime
from binaryrelax.export.isolated_runtime import CannotRun, outputs_of


def test_a_run_time_that_is_unknown_is_refused_with_the_known_ones(tmp_path):
    with pytest.raises(CannotRun, match="no run time 'abacus', only onnxruntime and"):
        outputs_of("abacus", tmp_path / "net", [], [{}])


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import os; os.kill(os.getpid(), 9)", "its process died of SIGKILL"),
        ("import os; os.abort()", "its process died of SIGABRT"),
        ("import sys; sys.exit('no such operator')", "no such operator"),
        ("import sys; sys.exit(3)", "exit status 3"),
    ],
)
@pytest.mark.skipif(os.name == "nt", reason="Windows has no signals")
def test_a_process_that_fails_says_of_what(code, reason, tmp_path, monkeypatch):
    script = tmp_path / "child.py"
    script.write_text(code)
    monkeypatch.setattr(isolated_runtime, "SCRIPT", script)
    with pytest.raises(CannotRun) as caught:
        outputs_of("onnxruntime", tmp_path / "net", [], [{}])
    assert str(caught.value) == reason
