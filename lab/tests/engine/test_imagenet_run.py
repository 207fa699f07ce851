import os
import signal
import time

import numpy as np
import pytest
from lab.tests.support.command import children_of, finish, run, start, wait_for_line
from PIL import Image
from safetensors.torch import load_file, save_file

from binaryrelax_lab.engine import FINAL_NAME, RESULT_NAME, digest_of, read_json
from binaryrelax_lab.models import build_network

CLASSES = ("n01", "n02", "n03")
NUM_TRAIN, NUM_TEST = 3, 1  # of each class
COMMAND = ("train", "imagenet-resnet18-binary", "--epochs", "1", "--set", "batch_size=8")


def write_photographs(folder, count, rng):
    folder.mkdir(parents=True)
    for number in range(count):
        coarse = Image.fromarray(rng.integers(0, 256, (4, 5, 3), dtype=np.uint8))
        coarse.resize((60, 48)).save(folder / f"{number}.JPEG")


@pytest.fixture
def tree(tmp_path):
    """Fewer classes than there are places in a top-5."""
    rng = np.random.default_rng(0)
    for name in CLASSES:
        write_photographs(tmp_path / "images" / "train" / name, NUM_TRAIN, rng)
        write_photographs(tmp_path / "images" / "val" / name, NUM_TEST, rng)
    return tmp_path / "images"


@pytest.fixture
def float_network(tmp_path):
    """A file like that of torchvision's float weights."""
    path = tmp_path / "resnet18.safetensors"
    save_file(build_network("resnet18-imagenet", 3, len(CLASSES)).state_dict(), path)
    return path


@pytest.mark.slow
def test_two_ranks_train_on_photographs_and_report_top1_and_top5(tree, float_network, tmp_path):
    out = tmp_path / "run"
    given = ("--data", tree, "--init", float_network, "--out", out)
    status, said, errors = run(*COMMAND, *given, num_ranks=2)
    assert status == 0, errors
    name = "imagenet-resnet18-binary+batch_size=8@1"
    assert said.count(f"[1/1] {name}: BinaryRelax binary") == 1
    assert said.count("(top-5 100.00 %)") == 1 and said.count("weights in Q") == 1

    result = read_json(out / RESULT_NAME)
    assert result["recipe"]["name"] == name
    assert result["environment"]["processes"] == 2
    assert result["initial_checkpoint"]["digest"] == digest_of(float_network)
    (epoch,) = result["epochs"]
    assert epoch["accuracy"] in [100 * right / 3 for right in range(4)]
    assert epoch["accuracy_top5"] == 100
    assert result["summary"]["last"] == epoch["accuracy"]
    assert result["summary"]["last_top5"] == 100 and result["summary"]["in_q"] is True
    counter = load_file(out / FINAL_NAME)["bn1.num_batches_tracked"]
    assert counter.item() == 2  # the second batch has one image, and none for the second rank


@pytest.mark.slow
@pytest.mark.parametrize("num_ranks", [0, 2])
def test_decoders_live_until_the_checkpoint_is_written(num_ranks, tree, float_network, tmp_path):
    """A signal to the whole group, as torchrun and timeout send it, reaches the decoders too."""
    given = ("--data", tree, "--init", float_network, "--out", tmp_path / "run", "--epochs", "50")
    process = start(*COMMAND, *given, num_ranks=num_ranks)
    wait_for_line(process, "epoch 1/50")
    time.sleep(1)
    pids = [process.pid] if num_ranks else [process.pid, *children_of(process.pid)]
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
    status, said, errors = finish(process)
    assert status == (1 if num_ranks else 143), errors
    assert said.count("A checkpoint was written") == 1
