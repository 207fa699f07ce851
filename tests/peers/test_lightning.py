"""BinaryRelax in Lightning's Trainer, by a callback alone."""

import csv
import math
import subprocess
import sys

import lightning
import pytest
import torch
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from binaryrelax import GeometricGrowth, LinearMix, Ternary, certify, pack, save_packed
from binaryrelax.integrations.lightning import RelaxCallback
from tests.peers.tiny_llama import same_weights

pytestmark = [
    pytest.mark.peers,
    pytest.mark.filterwarnings("ignore:The '.*_dataloader' does not have many workers"),
    pytest.mark.filterwarnings("ignore:Be aware that when using `ckpt_path`"),
    pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty"),
]
EPOCHS, BATCHES = 5, 8


def points():
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(BATCHES * 16, 2, generator=generator)
    return TensorDataset(inputs, (inputs.prod(1) > 0).long())


class Classifier(lightning.LightningModule):
    """As a user has it: nothing of it knows of quantization. The validation keeps books."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(
            nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2)
        )
        self.correct = []

    def training_step(self, batch, _):
        assert self.net.training
        loss = self.loss(batch)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, _):
        assert not self.net.training
        self.log_dict({"val_loss": self.loss(batch)})
        self.correct.append((self.net(batch[0]).argmax(1) == batch[1]).float().mean())

    def on_validation_epoch_end(self):
        trainer = self.trainer
        [most] = (
            trainer.num_sanity_val_batches if trainer.sanity_checking else trainer.num_val_batches
        )
        assert len(self.correct) == most  # those of one validation
        self.log("accuracy", torch.stack(self.correct).mean())
        self.correct.clear()

    def loss(self, batch):
        return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2)
        total = self.trainer.estimated_stepping_batches
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=total)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "interval": "step"},
        }


def fit(folder, *, relax=None, module=None, callbacks=(), checkpoint=None, **changed):
    relax = relax or RelaxCallback(Ternary(), keep_float=("net.4",))
    plain = {
        "max_epochs": EPOCHS, "accelerator": "cpu", "gradient_clip_val": 1.0,
        "log_every_n_steps": 4, "logger": CSVLogger(folder, name="log", version=0),
        "default_root_dir": folder, "enable_progress_bar": False, "enable_model_summary": False,
        "num_sanity_val_steps": 1, "enable_checkpointing": bool(callbacks),
    }  # fmt: skip
    trainer = lightning.Trainer(callbacks=[relax, *callbacks], **{**plain, **changed})
    module = module or Classifier()
    training, validation = DataLoader(points(), batch_size=16), DataLoader(points(), batch_size=64)
    trainer.fit(module, training, validation, ckpt_path=checkpoint)
    return module, trainer


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lightning")
    kept = ModelCheckpoint(folder, filename="{epoch}", save_top_k=-1)
    patient = EarlyStopping("val_loss", patience=1000)
    module, trainer = fit(folder, callbacks=(kept, patient))
    return module, trainer, folder


def logged(folder, key):
    with open(folder / "log" / "version_0" / "metrics.csv") as file:
        return [float(row[key]) for row in csv.DictReader(file) if row.get(key)]


def test_the_module_ends_with_three_values_and_packs(whole, tmp_path):
    module, trainer, folder = whole
    weights = trainer.optimizers[0].quantizers
    assert [w.unique().numel() for w in weights] == [3, 3] and trainer.optimizers[0].phase == 2
    assert logged(folder, "relax/in_q") == [1]
    copy = Classifier()
    copy.load_state_dict(module.state_dict())
    chosen = {copy.get_parameter(n): Ternary() for n in trainer.optimizers[0].names.values()}
    save_packed(pack(copy, chosen), tmp_path / "net.safetensors")
    assert certify(tmp_path / "net.safetensors").ok


def test_the_schedule_is_resolved_over_the_steps_of_the_training(whole):
    _, trainer, folder = whole
    steps = EPOCHS * BATCHES
    schedule = GeometricGrowth.over(steps)
    assert trainer.optimizers[0].schedule == schedule
    expected = [schedule(step - 1) for step in range(4, steps + 1, 4)]
    assert logged(folder, "relax/strength") == pytest.approx(expected, rel=1e-5)
    assert expected[-1] == math.inf
    assert logged(folder, "relax/phase") == [1] * 8 + [2] * 2
    assert len(logged(folder, "relax/level_flips")) == 9
    assert logged(folder, "relax/distance")[-1] == 0


def test_validation_in_phase_one_reports_the_projected_model_too(whole):
    _, trainer, folder = whole
    relaxed, projected = (logged(folder, name) for name in ("val_loss", "val_loss_projected"))
    assert len(relaxed) == EPOCHS and len(projected) == EPOCHS - 1  # the last is Phase II
    assert relaxed[0] != projected[0]
    assert len(logged(folder, "accuracy_projected")) == EPOCHS - 1
    patience = next(c for c in trainer.callbacks if isinstance(c, EarlyStopping))
    assert patience.wait_count < EPOCHS  # it has heard of one validation an epoch


def test_the_projected_validation_is_that_of_the_projected_weights(tmp_path):
    found = {}

    class Compare(lightning.Callback):
        def on_train_epoch_start(self, trainer, pl_module):
            optimizer = trainer.optimizers[0]
            if trainer.current_epoch == 2:
                found["logged"] = float(trainer.callback_metrics["val_loss_projected"])
                pl_module.eval()
                with optimizer.projected(), torch.no_grad():
                    found["by hand"] = float(pl_module.loss(points()[:]))
                pl_module.train()

    fit(tmp_path, callbacks=(Compare(),))
    assert found["logged"] == pytest.approx(found["by hand"], rel=1e-5)


def test_it_changes_nothing_of_the_training_and_can_be_turned_off(whole, tmp_path):
    quiet = RelaxCallback(Ternary(), keep_float=("net.4",), validate_projected=False)
    module, trainer = fit(tmp_path, relax=quiet)
    assert same_weights(module, whole[0])
    assert "val_loss_projected" not in trainer.callback_metrics


@pytest.mark.parametrize("epoch", [1, 3], ids=["in phase one", "in phase two"])
def test_a_resumed_training_ends_with_the_same_bits(whole, epoch, tmp_path):
    module, _, folder = whole
    resumed, trainer = fit(tmp_path, checkpoint=folder / f"epoch={epoch}.ckpt")
    assert trainer.optimizers[0].num_steps == EPOCHS * BATCHES
    assert same_weights(module, resumed)


def test_resuming_with_other_steps_is_refused(whole, tmp_path):
    with pytest.raises(ValueError, match=r"saved with schedule .*as many steps as the saved run"):
        fit(tmp_path, checkpoint=whole[2] / "epoch=1.ckpt", max_epochs=9)


@pytest.mark.parametrize(
    "changed",
    [
        {"accumulate_grad_batches": 3},
        {"max_steps": 23, "max_epochs": -1},
        {"precision": "bf16-mixed"},
        {"log_every_n_steps": 1, "val_check_interval": 3},
    ],
    ids=str,
)
def test_weights_end_in_q_under(changed, tmp_path):
    _, trainer = fit(tmp_path, **changed)
    optimizer = trainer.optimizers[0]
    assert optimizer.num_steps == trainer.estimated_stepping_batches == trainer.global_step
    assert [w.unique().numel() for w in optimizer.quantizers] == [3, 3]
    assert logged(tmp_path, "relax/in_q") == [1]


def test_another_schedule(tmp_path):
    relax = RelaxCallback(Ternary(), schedule=LinearMix.over)
    _, trainer = fit(tmp_path, relax=relax)
    assert trainer.optimizers[0].schedule == LinearMix(0, 32)
    assert len(trainer.optimizers[0].quantizers) == 3


def test_what_cannot_work_is_refused(tmp_path):
    class TwoOptimizers(Classifier):
        automatic_optimization = False

        def configure_optimizers(self):
            return [torch.optim.SGD(self.parameters(), lr=0.1) for _ in range(2)]

    with pytest.raises(ValueError, match=r"gave \['SGD', 'SGD'\]: it wraps one optimizer"):
        fit(tmp_path, module=TwoOptimizers(), gradient_clip_val=None)
    with pytest.raises(ValueError, match=r"net.0.weight' is torch.bfloat16.*bf16-mixed"):
        fit(tmp_path, precision="bf16-true")
    with pytest.raises(ValueError, match=r"has inf steps; set max_steps or max_epochs"):
        fit(tmp_path, max_epochs=-1)


def test_a_model_that_is_not_in_q_at_the_end_is_told_of(tmp_path):
    class Stop(lightning.Callback):
        def on_train_epoch_end(self, trainer, pl_module):
            trainer.should_stop = True

    with pytest.warns(UserWarning, match=r"ended with 2 of 2 weights outside of Q"):
        fit(tmp_path, callbacks=(Stop(),))
    assert logged(tmp_path, "relax/in_q") == [0]


def test_two_processes_end_with_the_same_bits(tmp_path):
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    script = ["-m", "tests.peers.on_ranks", str(tmp_path), "lightning"]
    done = subprocess.run(
        [sys.executable, *command, *script], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-3000:]
    first, second = (torch.load(tmp_path / f"{rank}.pt") for rank in range(2))
    layers = [first[f"net.{index}.weight"] for index in (0, 2)]
    assert all(layer.unique().numel() == 3 for layer in layers)
    assert all(torch.equal(tensor, second[name]) for name, tensor in first.items())
