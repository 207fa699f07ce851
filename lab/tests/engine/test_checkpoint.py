import hashlib
import os
import pickle
import resource
import subprocess
import sys

import pytest
import torch
from lab.tests.support.command import ENVIRONMENT, ROOT, evidence, files_in
from lab.tests.support.interrupted import After, train_tiny

from binaryrelax_lab.data import load_dataset
from binaryrelax_lab.engine import FINAL_NAME, RESULT_NAME, Job, RunOptions, RunStopped, train
from binaryrelax_lab.engine.checkpoint import MAGIC, checkpoints, load_newest, save_checkpoint
from binaryrelax_lab.recipes import find_recipe

CONTENT = {"recipe": {"lr": 0.1}, "numbers": torch.arange(5), "nested": [{"epoch": 0}, None, "inf"]}


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    """What a run that nothing interrupts leaves behind."""
    folder = tmp_path_factory.mktemp("whole")
    train_tiny(folder)
    return evidence(folder)


@pytest.fixture
def stopped(tmp_path):
    """A run that was stopped inside its third epoch, of three steps each."""
    with pytest.raises(RunStopped, match=r"after 2\.33 of 4 epochs"):
        train_tiny(tmp_path, stop_after=7)
    return tmp_path


def steps_of(folder):
    return [path.name for path in checkpoints(folder)]


def test_what_is_saved_comes_back(tmp_path):
    path = save_checkpoint(tmp_path, 7, CONTENT)
    assert path.parent == tmp_path / "checkpoints"
    saved = load_newest(tmp_path, pytest.fail)
    assert torch.equal(saved.pop("numbers"), CONTENT["numbers"])
    assert saved == {key: value for key, value in CONTENT.items() if key != "numbers"}


def test_nothing_saved_is_nothing(tmp_path):
    assert load_newest(tmp_path, pytest.fail) is None


def test_only_the_last_two_stay(tmp_path):
    for num_steps in (90, 100, 1000):
        save_checkpoint(tmp_path, num_steps, CONTENT)
    assert steps_of(tmp_path) == ["step-000001000.ckpt", "step-000000100.ckpt"]
    assert len(list((tmp_path / "checkpoints").iterdir())) == 2


def test_saving_again_at_the_same_step_keeps_the_one_before(tmp_path):
    for num_steps in (1, 2, 2):
        save_checkpoint(tmp_path, num_steps, CONTENT)
    assert steps_of(tmp_path) == ["step-000000002.ckpt", "step-000000001.ckpt"]


def test_two_whole_checkpoints_stay_after_a_later_damaged_one(tmp_path):
    """Once a run has fallen back, the damaged checkpoint must not take the place of a good one."""
    for num_steps in (10, 20):
        save_checkpoint(tmp_path, num_steps, CONTENT)
    checkpoints(tmp_path)[0].write_bytes(b"torn")
    for num_steps in (11, 12):
        save_checkpoint(tmp_path, num_steps, CONTENT)
    assert steps_of(tmp_path) == ["step-000000012.ckpt", "step-000000011.ckpt"]


def test_what_a_killed_process_was_writing_goes_with_the_next_checkpoint(tmp_path):
    save_checkpoint(tmp_path, 1, CONTENT)
    left = tmp_path / "checkpoints" / ".step-000000002.ckpt.0a1b2c3d.part"
    left.write_bytes(b"half")
    save_checkpoint(tmp_path, 3, CONTENT)
    assert not left.exists()


def test_a_run_removes_what_a_killed_one_was_writing(tmp_path):
    left = tmp_path / f".{FINAL_NAME}.0a1b2c3d.part"
    left.write_bytes(b"half")
    train_tiny(tmp_path)
    assert sorted(files_in(tmp_path)) == [FINAL_NAME, "histograms.json", RESULT_NAME]
    assert (tmp_path / "checkpoints").is_dir()


def truncated(content):
    return content[: len(content) // 2]


def emptied(content):
    return b""


def flipped(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def foreign(content):
    return b"PK\x03\x04" + content


def changed_header(content):
    return content.replace(b"checkpoint 1", b"checkpoint 2", 1)


class Trap:
    """Runs a command when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def sealed(payload):
    """A checkpoint file with that content and the right digest."""
    return MAGIC + hashlib.sha256(payload).hexdigest().encode() + b"\n" + payload


DAMAGES = [truncated, emptied, flipped, foreign, changed_header]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda function: function.__name__)
def test_a_damaged_newest_checkpoint_falls_back_to_the_one_before(damage, stopped, whole_run):
    newest, before = checkpoints(stopped)
    newest.write_bytes(damage(newest.read_bytes()))
    lines = train_tiny(stopped, resume=True)
    assert len(lines) == 1
    assert lines[0].startswith(f"{newest} cannot be used (")
    assert lines[0].endswith(f"; falling back to {before.name}")
    assert evidence(stopped) == whole_run


def test_when_no_checkpoint_is_whole_a_run_starts_afresh_and_says_so(stopped, whole_run):
    for path in checkpoints(stopped):
        path.write_bytes(truncated(path.read_bytes()))
    lines = train_tiny(stopped, resume=True)
    assert len(lines) == 2
    assert lines[1].endswith("; starting afresh")
    assert evidence(stopped) == whole_run


def test_a_hostile_pickle_is_refused_and_not_run(stopped, whole_run, tmp_path):
    path = checkpoints(stopped)[0]
    trap = {"trainer": Trap(tmp_path / "sprung")}
    torch.save(trap, path)
    for payload in (path.read_bytes(), pickle.dumps(trap)):
        path.write_bytes(sealed(payload))
        lines = []
        assert load_newest(stopped, lines.append) is not None  # the one before
        assert "something else than tensors and plain data" in lines[0]
    assert not (tmp_path / "sprung").exists()
    train_tiny(stopped, resume=True)
    assert evidence(stopped) == whole_run


def test_a_whole_file_with_something_else_inside_is_refused(tmp_path):
    path = save_checkpoint(tmp_path, 1, CONTENT)
    torch.save([1, 2], path)
    path.write_bytes(sealed(path.read_bytes()))
    lines = []
    assert load_newest(tmp_path, lines.append) is None
    assert len(lines) == 1


def test_a_new_run_forgets_the_checkpoints_of_before(stopped):
    with pytest.raises(RunStopped):
        train_tiny(stopped, seed=1, stop_after=1)
    assert steps_of(stopped) == ["step-000000001.ckpt"]


def limited(arguments, largest_file):
    """The command in a process whose files cannot grow beyond so many bytes."""
    return subprocess.run(
        [sys.executable, "-m", "binaryrelax", *map(str, arguments)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file)),
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=ENVIRONMENT,
    )


def test_no_room_for_a_checkpoint_is_one_line_and_the_earlier_one_stays(tmp_path):
    recipe = find_recipe("demo-float").with_epochs(1)
    job, data = Job(recipe, 0, tmp_path), load_dataset(recipe.dataset)
    with pytest.raises(RunStopped):
        train(job, data, options=RunOptions(should_stop=After(70)))
    before = files_in(tmp_path)
    arguments = ["train", "demo-float", "--epochs", "1", "--checkpoint-every", "1"]
    done = limited([*arguments, "--out", tmp_path, "--resume"], largest_file=300_000)
    assert done.returncode == 1
    assert "resumed at epoch 0.8861" in done.stdout
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"binaryrelax: {tmp_path}/checkpoints/step-000000079.ckpt cannot")
    assert "(File too large); what was there before is intact; to go on: the same" in done.stderr
    assert done.stderr.endswith("command with --resume\n")
    assert files_in(tmp_path) == before
    train(job, data, options=RunOptions(resume=True))
    assert job.is_finished()
