"""The engine on a CUDA device: graphs, resuming to the same bits, several networks at a time."""

import subprocess
import sys
import threading
from dataclasses import replace

import pytest
import torch

from binaryrelax import Ternary
from binaryrelax_lab.data import ImageSet
from binaryrelax_lab.engine import (
    FINAL_NAME,
    Job,
    Listener,
    Machine,
    RunOptions,
    RunStopped,
    digest_of,
    train,
)
from binaryrelax_lab.engine.compiled import Compiled
from binaryrelax_lab.engine.cuda_graph import GraphedFunction
from binaryrelax_lab.engine.evaluation import GPU_BATCH, Evaluation
from binaryrelax_lab.engine.recalibration import images_after_training, recalibrated
from binaryrelax_lab.engine.trainer import Trainer
from binaryrelax_lab.recipes import cifar10_resnet20, plain

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
EPOCHS = 5


def images(num_train=600, num_test=200):
    """Noise that is the brighter the higher the label."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 10, (num_train + num_test,), generator=generator)
    noise = torch.randint(0, 166, (num_train + num_test, 32, 32, 3), generator=generator)
    pixels = noise + 10 * labels[:, None, None, None]
    return ImageSet(
        train_images=pixels[:num_train].byte(),
        train_labels=labels[:num_train],
        test_images=pixels[num_train:].byte(),
        test_labels=labels[num_train:],
        num_classes=10,
        mean=(0.5, 0.5, 0.5),
        deviation=(0.25, 0.25, 0.25),
    )


def recipe(method="ternary", **changes):
    short = cifar10_resnet20(method).with_epochs(EPOCHS)
    return replace(short, starts_from=None, **changes)


class Notes(Listener):
    def __init__(self):
        self.lines = []

    def note(self, line):
        self.lines.append(line)


@pytest.mark.parametrize("method", ["float", "binary", "ternary", "ternary-exact"])
def test_a_stopped_run_goes_on_to_the_same_bits(method, tmp_path):
    machine = Machine(torch.device("cuda"), "bf16", deterministic=True)
    data, notes = images(), Notes()
    train(Job(recipe(method), 0, tmp_path / "whole"), data, machine=machine, listener=notes)
    for stop_after in (1, 7, 13):  # eager steps, graphs, and the short batch at an epoch's end
        folder, steps = tmp_path / f"stopped{stop_after}", []
        options = RunOptions(should_stop=lambda n=stop_after, s=steps: s.append(1) or len(s) >= n)
        with pytest.raises(RunStopped):
            train(Job(recipe(method), 0, folder), data, machine=machine, options=options)
        job = Job(recipe(method), 0, folder)
        train(job, data, machine=machine, options=RunOptions(resume=True))
        assert digest_of(folder / FINAL_NAME) == digest_of(tmp_path / "whole" / FINAL_NAME)
    assert notes.lines == []  # nothing had to fall back


def test_whole_and_short_batches_become_graphs():
    machine = Machine(torch.device("cuda"), "bf16")
    with torch.cuda.stream(torch.cuda.Stream()):
        trainer = Trainer(recipe("binary", quantizer=Ternary()), images(), seed=0, machine=machine)
        trainer.start()
        for _ in range(3):
            for _ in trainer.steps():
                pass
    assert isinstance(trainer._step, GraphedFunction)
    assert len(trainer._step._recordings) == 2
    assert trainer.strength == pytest.approx(recipe("binary").schedule(5)(14))


def test_compiled_evaluation_counts_what_the_plain_one_counts():
    """Two whole batches and a short one; bf16 rounds differently once operations are fused.

    The weights change in between: a graph that kept old ones would count what it counted before.
    """
    machine, notes, seen = Machine(torch.device("cuda"), "bf16"), [], []
    with machine.settings(), torch.cuda.stream(torch.cuda.Stream()):
        data = images(num_test=2 * GPU_BATCH + 500)
        trainer = Trainer(recipe("binary"), data, seed=0, machine=machine, note=notes.append)
        trainer.start()
        plain = Evaluation(trainer.model, trainer.task.data, machine)
        for _ in range(4):
            for _ in trainer.steps():
                pass
            fast, slow = (e.measured()["accuracy"] for e in (trainer.evaluation, plain))
            seen.append(slow)
            assert fast == pytest.approx(slow, abs=0.5)
            with trainer.optimizer.projected():
                fast, slow = (e.measured()["accuracy"] for e in (trainer.evaluation, plain))
            seen.append(slow)
            assert fast == pytest.approx(slow, abs=0.5)
    assert max(seen) > min(seen) + 5  # else nothing was shown
    assert isinstance(trainer.evaluation._right, Compiled) and notes == []


@pytest.mark.parametrize("precision", ["bf16", "fp32"])
def test_statistics_are_measured_anew_and_training_goes_on_undisturbed(precision):
    """The graphs of evaluation read the new ones, and those of training the old ones again."""
    machine = Machine(torch.device("cuda"), precision, deterministic=True)
    ends = []
    with machine.settings(), torch.cuda.stream(torch.cuda.Stream()):
        for looks in (False, True):
            trainer = Trainer(recipe("binary"), images(), seed=0, machine=machine)
            trainer.start()
            for _ in range(EPOCHS):
                for _ in trainer.steps():
                    pass
                last = trainer.epoch_record().accuracy
                if looks:
                    anew = trainer.closing()["last_recalibrated"]
                    assert trainer.evaluation.measured()["accuracy"] == last
            ends.append({name: t.clone() for name, t in trainer.model.state_dict().items()})
        images_seen = images_after_training(plain(trainer.recipe), trainer.task.data, 0)
        with recalibrated(trainer.model, images_seen, machine):
            again = Evaluation(trainer.model, trainer.task.data, machine).measured()["accuracy"]
    assert anew == pytest.approx(again, abs=1)
    assert all(torch.equal(tensor, ends[1][name]) for name, tensor in ends[0].items())


def test_no_sync_inside_an_epoch():
    machine = Machine(torch.device("cuda"), "bf16")
    with torch.cuda.stream(torch.cuda.Stream()):
        trainer = Trainer(recipe("ternary-exact"), images(), seed=0, machine=machine)
        trainer.start()
        for _ in range(3):
            for _ in trainer.steps():
                pass
        torch.cuda.synchronize()
        steps = trainer.steps()
        next(steps)  # draws the epoch's order
        torch.cuda.set_sync_debug_mode("error")
        try:
            for _ in steps:
                pass
        finally:
            torch.cuda.set_sync_debug_mode("default")


def test_networks_side_by_side_learn_as_they_do_alone(tmp_path):
    machine = Machine(torch.device("cuda"), "fp32", deterministic=True)
    data, methods = images(), ("float", "binary", "ternary")
    for method in methods:
        train(Job(recipe(method), 0, tmp_path / method), data, machine=machine)
    threads = [
        threading.Thread(
            target=train,
            args=(Job(recipe(method), 0, tmp_path / "beside" / method), data),
            kwargs={"machine": machine},
        )
        for method in methods
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for method in methods:
        alone, beside = (tmp_path / m / FINAL_NAME for m in (method, f"beside/{method}"))
        assert digest_of(alone) == digest_of(beside)


def test_one_rank_under_torchrun_trains_through_nccl(tmp_path):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=1"]
    # Not `binaryrelax`, which knows of the lab only where that is installed.
    command += ["-m", "binaryrelax_lab", "train", "demo-binary", "--epochs", "1"]
    done = subprocess.run(
        [*command, "--out", str(tmp_path)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "not as a graph" in done.stdout and "weights in Q" in done.stdout
