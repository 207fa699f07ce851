"""Nothing that was trained is lost without a word."""

import pytest
import torch
from lab.tests.support.command import app, files_in
from lab.tests.support.interrupted import FINISHED, HALF_DONE, train_on_noise
from safetensors.torch import save_file
from typer.testing import CliRunner

from binaryrelax_lab.demo import refuse_other_folders
from binaryrelax_lab.engine import RESULT_NAME, Job, job_with_ancestor, jobs_of, read_json
from binaryrelax_lab.recipes import find_recipe

FLOAT, BINARY = (find_recipe(name).with_epochs(1) for name in ("demo-float", "demo-binary"))
IMPOSSIBLE = {  # what cannot begin -> why
    "--init nothing": "nothing, the network that demo-binary@1 starts from, cannot be read",
    "--init rubbish": "rubbish, the network that demo-binary@1 starts from, cannot be read",
    "--init other": "cannot start from another network than small-conv",
    "--set held_out=99999": "held_out=99999: it must be above 0 and below 10000",
}
SHORT = ("--set", "held_out=9800")  # two steps on what is left of the images
WAYS_OUT = "; --resume goes on with it, --overwrite begins anew\n"


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def check_refused(result, folder, whose):
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (1, "", 1)
    assert result.stderr.startswith(f"binaryrelax: {folder} holds a run{whose} (")
    assert result.stderr.endswith(WAYS_OUT)


@pytest.mark.parametrize("stop_after", [HALF_DONE, FINISHED], ids=["half-done", "finished"])
@pytest.mark.parametrize("recipe", ["demo-float", "demo-twn"])
def test_a_run_is_not_replaced_whatever_is_asked_for(recipe, stop_after, tmp_path):
    train_on_noise([Job(FLOAT, 0, tmp_path)], stop_after)
    before = files_in(tmp_path)
    result = invoke("train", recipe, "--epochs", 1, "--out", tmp_path)
    check_refused(result, tmp_path, " of demo-float@1")
    assert files_in(tmp_path) == before
    assert not (tmp_path / "demo-float@1").exists()


def test_a_finished_ancestor_is_not_replaced(tmp_path):
    ancestor, _ = job_with_ancestor(BINARY, seed=0, out=tmp_path, initial=None)
    train_on_noise([ancestor])
    before = files_in(tmp_path)
    result = invoke("train", "demo-binary", "--epochs", 1, "--out", tmp_path)
    check_refused(result, tmp_path / "demo-float@1", " of demo-float@1")
    assert files_in(tmp_path) == before


def test_a_result_that_is_not_ours_is_not_replaced(tmp_path):
    (tmp_path / RESULT_NAME).write_text("mine")
    result = invoke("train", "demo-float", "--epochs", 1, "--out", tmp_path)
    check_refused(result, tmp_path, "")
    assert files_in(tmp_path) == {RESULT_NAME: b"mine"}


def test_overwrite_begins_anew(tmp_path):
    train_on_noise([Job(FLOAT, 7, tmp_path)])
    command = ("train", "demo-float", "--epochs", 1, *SHORT, "--overwrite", "--out", tmp_path)
    result = invoke(*command)
    assert result.exit_code == 0, result.output
    assert "resumed" not in result.stdout
    assert read_json(tmp_path / RESULT_NAME)["seed"] == 0


@pytest.fixture(scope="module")
def starts(tmp_path_factory):
    """A folder with files that no run of the demo can start from."""
    folder = tmp_path_factory.mktemp("starts")
    (folder / "rubbish").write_text("no tensors")
    save_file({"fc.weight": torch.zeros(2, 3)}, folder / "other")
    return folder


@pytest.mark.parametrize("options", IMPOSSIBLE)
def test_nothing_is_overwritten_by_a_run_that_cannot_begin(options, starts, tmp_path, monkeypatch):
    train_on_noise([Job(FLOAT, 0, tmp_path / FLOAT.name), Job(BINARY, 0, tmp_path)], HALF_DONE)
    before = files_in(tmp_path)
    monkeypatch.chdir(starts)
    command = ("train", "demo-binary", "--epochs", 1, "--out", tmp_path, "--overwrite")
    result = invoke(*command, *options.split())
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (1, "", 1)
    assert IMPOSSIBLE[options] in result.stderr
    assert files_in(tmp_path) == before


@pytest.mark.parametrize("name", ["report.html", "picture.png", RESULT_NAME])
def test_a_demo_does_not_touch_what_no_demo_has_written(name, tmp_path):
    (tmp_path / name).write_text("mine")
    result = invoke("demo", "--epochs", 1, "--out", tmp_path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"binaryrelax: {tmp_path / name} was not written by a demo; give another --out\n"
    )
    assert files_in(tmp_path) == {name: b"mine"}


@pytest.mark.parametrize("stop_after", [HALF_DONE, FINISHED], ids=["half-done", "finished"])
def test_a_demo_does_not_touch_a_run_of_another_recipe(stop_after, tmp_path):
    folder = tmp_path / FLOAT.name
    train_on_noise([Job(find_recipe("demo-float").with_epochs(2), 0, folder)], stop_after)
    before = files_in(tmp_path)
    result = invoke("demo", "--epochs", 1, "--out", tmp_path)
    assert result.exit_code == 1
    assert f"{folder} was not written by a demo" in result.stderr
    assert files_in(tmp_path) == before


def test_a_demo_replaces_an_earlier_demo(tmp_path):
    jobs = jobs_of([FLOAT, BINARY], seed=0, out=tmp_path)
    train_on_noise(jobs)
    (tmp_path / "report.html").touch()
    refuse_other_folders(tmp_path, jobs)
