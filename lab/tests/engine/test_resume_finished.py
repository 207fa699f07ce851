"""A finished run stays as it is: what lies beside its result may be gone."""

import errno
import os
import shutil
import tempfile

import pytest
from lab.tests.support.campaigns import carry_on, small_table
from lab.tests.support.command import app, files_in
from lab.tests.support.errors import one_line
from lab.tests.support.interrupted import HALF_DONE, train_on_noise
from lab.tests.support.tiny import tiny_data, tiny_recipe
from typer.testing import CliRunner

from binaryrelax_lab.campaign import Campaign
from binaryrelax_lab.engine import (
    FINAL_NAME,
    HISTOGRAMS_NAME,
    RESULT_NAME,
    Job,
    RunOptions,
    job_with_ancestor,
    train,
)
from binaryrelax_lab.recipes import find_recipe

FLOAT, BINARY = (find_recipe(name).with_epochs(1) for name in ("demo-float", "demo-binary"))
COMMAND = ("train", BINARY.name)
WAYS_OUT = "; bring it back, or begin anew (--overwrite, or remove that folder)"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder as the command leaves it: a binary network, and inside it its float ancestor."""
    out = tmp_path_factory.mktemp("whole")
    train_on_noise(job_with_ancestor(BINARY, seed=0, out=out, initial=None))
    return out


@pytest.fixture
def out(whole, tmp_path):
    """A copy of it, to take something away from."""
    return shutil.copytree(whole, tmp_path / "run")


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def check_kept(out, *, num_kept):
    """The command says that it is finished, and touches nothing."""
    before = files_in(out)
    result = invoke(*COMMAND, "--out", out, "--resume")
    assert result.exit_code == 0, result.output
    assert result.stdout.count("finished before, kept") == num_kept
    assert "starting afresh" not in result.stdout
    assert files_in(out) == before


def check_refused(out, folder, recipe, lost):
    before = files_in(out)
    result = invoke(*COMMAND, "--out", out, "--resume")
    assert (result.exit_code, result.stdout) == (1, "")
    words = f"{folder} holds a finished run of {recipe.name}, but {lost}{WAYS_OUT}"
    assert result.stderr == f"binaryrelax: {words}\n"
    assert files_in(out) == before


def test_histograms_are_not_needed(out):
    (out / HISTOGRAMS_NAME).unlink()
    (out / FLOAT.name / HISTOGRAMS_NAME).write_text("{")
    check_kept(out, num_kept=2)


def test_the_ancestor_is_not_needed_any_more(out):
    shutil.rmtree(out / FLOAT.name)
    check_kept(out, num_kept=1)


def test_an_ancestor_without_its_network_is_not_needed_either(out):
    (out / FLOAT.name / FINAL_NAME).unlink()
    check_kept(out, num_kept=1)


def test_another_start_that_is_not_there_is_not_taken_for_the_same(out):
    shutil.rmtree(out / FLOAT.name)
    before = files_in(out)
    result = invoke(*COMMAND, "--out", out, "--resume", "--init", "typo.safetensors")
    assert result.exit_code == 1
    assert "give a safetensors file with --init" in result.stderr
    assert files_in(out) == before


def test_a_folder_that_cannot_be_written_is_good_enough(out, monkeypatch):
    def refused(**where):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(tempfile, "TemporaryFile", refused)
    check_kept(out, num_kept=2)
    result = invoke(*COMMAND, "--out", out, "--overwrite")
    assert "cannot be written to (Read-only file system)" in result.stderr


def test_a_result_whose_network_is_lost_is_not_trained_again(out):
    (out / FINAL_NAME).unlink()
    check_refused(out, out, BINARY, f"its {FINAL_NAME} is missing")


def test_a_result_with_another_network_beside_it_is_not_trained_again(out):
    shutil.copy(out / FLOAT.name / FINAL_NAME, out / FINAL_NAME)
    check_refused(
        out,
        out,
        BINARY,
        f"{FINAL_NAME} is not the one that its {RESULT_NAME} tells of: its digest differs",
    )


def test_an_ancestor_that_is_needed_is_not_trained_again(tmp_path):
    train_on_noise(job_with_ancestor(BINARY, seed=0, out=tmp_path, initial=None), HALF_DONE)
    (tmp_path / FLOAT.name / FINAL_NAME).unlink()
    check_refused(tmp_path, tmp_path / FLOAT.name, FLOAT, f"its {FINAL_NAME} is missing")


def test_the_engine_refuses_too(tmp_path):
    job = Job(tiny_recipe("float"), 0, tmp_path)
    train(job, tiny_data())
    (tmp_path / FINAL_NAME).unlink()
    before = files_in(tmp_path)
    with pytest.raises(ValueError, match="holds a finished run of tiny-float, but") as caught:
        train(job, tiny_data(), options=RunOptions(resume=True))
    one_line(caught)
    assert files_in(tmp_path) == before


def test_a_campaign_does_not_train_a_finished_ancestor_again(tmp_path):
    recipes = small_table()[:2]
    ancestors = Campaign(recipes=recipes, out=tmp_path, only=("*float",))
    carry_on(ancestors)
    [job] = ancestors.jobs()
    (job.folder / FINAL_NAME).unlink()
    before = files_in(tmp_path)
    with pytest.raises(ValueError, match=f"its {FINAL_NAME} is missing") as caught:
        carry_on(Campaign(recipes=recipes, out=tmp_path))
    one_line(caught)
    assert files_in(tmp_path) == before
