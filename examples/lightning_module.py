"""Lightning with ternary weights: a callback is the only place that knows.

A small network learns to tell points on two spirals apart. Lightning does the loop, the learning
rate, gradient clipping and the checkpoint. A second training is cut off half way and resumed by
another Trainer. It ends with the same bits as the one in a single piece. The network is packed,
certified, loaded and asked about the points.

    pip install '.[peers]'
    python examples/lightning_module.py            # about 19 seconds
    python examples/lightning_module.py --short    # about 6 seconds

The first command prints, with other figures on other machines:

    40 epochs in one piece
      epoch  6  loss 0.000  λ 2.5
      epoch 12  loss 0.000  λ 6.5
      epoch 18  loss 0.000  λ 16.7
      epoch 24  loss 0.000  λ 42.8
      epoch 30  loss 0.000  λ 109.6
      epoch 36  loss 0.000  λ inf
    cut off after 20 epochs
      ...
    resumed
      ...
    2 ternary weights, farthest from Q: 0.0
    resumed run equal to the whole one: True
    accuracy on the training points: 100.0 %
    packed and certified: spirals.safetensors, 19,176 bytes, 14.0 times smaller than float32
    loaded: 100.0 %
"""

from __future__ import annotations

import argparse
import logging
import tempfile
import warnings
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch.utils.data import DataLoader, TensorDataset

from binaryrelax import (
    SelectedWeights,
    Ternary,
    certify,
    distance,
    load_packed,
    pack,
    save_packed,
    select_weights,
)
from binaryrelax.integrations.lightning import RelaxCallback

NUM_POINTS, BATCH = 2048, 128
STEPS_PER_EPOCH = NUM_POINTS // BATCH


def spirals() -> tuple[Tensor, Tensor]:
    """Points on two spirals, and which spiral each is of."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 2, (NUM_POINTS,), generator=generator)
    radius = torch.rand(NUM_POINTS, generator=generator) + 0.1
    angle = 5 * radius + torch.pi * labels
    points = torch.stack([radius * angle.cos(), radius * angle.sin()], 1)
    return points + 0.02 * torch.randn(points.shape, generator=generator), labels


def plain_network() -> nn.Sequential:
    """Three Linear layers; the last stays float."""
    return nn.Sequential(
        nn.Linear(2, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 2)
    )


class SpiralNetwork(lightning.LightningModule):
    """The network, its loss and its optimizer."""

    def __init__(self, epochs: int) -> None:
        super().__init__()
        self.epochs = epochs
        self.net = plain_network()

    def training_step(self, batch: list[Tensor], _: int) -> Tensor:
        """The loss; the weights that it sees are the relaxed ones."""
        points, labels = batch
        loss = functional.cross_entropy(self.net(points), labels)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> dict[str, Any]:
        """Plain torch; the callback wraps what this returns."""
        base = torch.optim.AdamW(self.parameters(), lr=1e-2)
        scheduler = CosineAnnealingLR(base, T_max=self.epochs * STEPS_PER_EPOCH)
        return {"optimizer": base, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def on_train_epoch_end(self) -> None:
        """Prints λ about six times in all."""
        if (self.current_epoch + 1) % max(self.epochs // 6, 1) == 0:
            metrics = self.trainer.callback_metrics
            loss, strength = metrics["loss"], metrics["relax/strength"]
            print(f"  epoch {self.current_epoch + 1:2}  loss {loss:.3f}  λ {strength:.1f}")


def data() -> DataLoader:
    """The points in a fixed order, so that two runs can be compared."""
    return DataLoader(TensorDataset(*spirals()), batch_size=BATCH)


class StopAfter(lightning.Callback):
    """Ends the training after an epoch and its checkpoint, as a crash would."""

    def __init__(self, epochs: int | None) -> None:
        self.epochs = epochs

    def on_train_epoch_start(self, trainer: lightning.Trainer, pl_module: SpiralNetwork) -> None:
        """Lightning finishes the epoch that is under way."""
        trainer.should_stop |= trainer.current_epoch + 1 == self.epochs


def trainer(epochs: int, folder: Path, stop_after: int | None = None) -> lightning.Trainer:
    """Clipping and a checkpoint after each epoch, as usual; λ follows the number of epochs."""
    return lightning.Trainer(
        max_epochs=epochs,
        default_root_dir=folder,
        accelerator="cpu",
        gradient_clip_val=1.0,
        log_every_n_steps=STEPS_PER_EPOCH,
        callbacks=[
            RelaxCallback(Ternary(), keep_float=("net.4",)),
            ModelCheckpoint(dirpath=folder, save_last=True),
            StopAfter(stop_after),
        ],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )


def trained_whole(epochs: int, folder: Path) -> SpiralNetwork:
    """All epochs in one piece."""
    print(f"{epochs} epochs in one piece")
    torch.manual_seed(0)
    module = SpiralNetwork(epochs)
    trainer(epochs, folder).fit(module, data())
    return module


def trained_in_pieces(epochs: int, folder: Path) -> SpiralNetwork:
    """Half of the epochs, then a new module and a new Trainer from the checkpoint."""
    print(f"cut off after {epochs // 2} epochs")
    torch.manual_seed(0)
    trainer(epochs, folder, stop_after=epochs // 2).fit(SpiralNetwork(epochs), data())
    print("resumed")
    module = SpiralNetwork(epochs)  # its random weights are replaced by the checkpoint's
    trainer(epochs, folder).fit(module, data(), ckpt_path=folder / "last.ckpt")
    return module


def chosen_weights(network: nn.Sequential) -> SelectedWeights:
    """What the callback quantizes: all but the last layer."""
    return select_weights(network, Ternary(), keep_float=("4",))


def compare(whole: SpiralNetwork, resumed: SpiralNetwork) -> None:
    """Whether the weights lie in Q, and whether both trainings gave the same ones."""
    weights = chosen_weights(resumed.net)
    farthest = max(float(distance(weight, Ternary())) for weight in weights)
    print(f"{len(weights)} ternary weights, farthest from Q: {farthest}")
    pairs = zip(whole.parameters(), resumed.parameters(), strict=True)
    print(f"resumed run equal to the whole one: {all(torch.equal(a, b) for a, b in pairs)}")
    print(f"accuracy on the training points: {accuracy(resumed.net):.1f} %")


def ship(module: SpiralNetwork, file: Path) -> nn.Module:
    """Pack the network inside, save, certify, and load it into a plain one without Lightning."""
    save_packed(pack(module.net, chosen_weights(module.net)), file)
    certificate = certify(file)
    if not certificate.ok:
        raise SystemExit(certificate.reason)
    size = f"{certificate.file_bytes:,} bytes, {certificate.saving:.1f} times smaller than float32"
    print(f"packed and certified: {file.name}, {size}")
    return load_packed(file, plain_network())


@torch.no_grad()
def accuracy(model: nn.Module) -> float:
    """Percent of the points that are told right."""
    points, labels = spirals()
    return 100 * float((model(points).argmax(1) == labels).float().mean())


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description="Train ternary weights with Lightning, resume, pack and load."
    )
    parser.add_argument("--short", action="store_true", help="few epochs: seconds")
    parser.add_argument("--out", type=Path, default=Path("spirals.safetensors"), metavar="FILE")
    return parser.parse_args()


def main() -> None:
    """Train twice, compare, pack, load."""
    chosen = options()
    epochs = 6 if chosen.short else 40
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    for noise in (".*num_workers.*", ".*treespec.*", ".*exists and is not empty.*"):
        warnings.filterwarnings("ignore", message=noise)
    with tempfile.TemporaryDirectory() as folder:
        whole = trained_whole(epochs, Path(folder, "whole"))
        resumed = trained_in_pieces(epochs, Path(folder, "pieces"))
    compare(whole, resumed)
    loaded = ship(resumed, chosen.out)
    print(f"loaded: {accuracy(loaded):.1f} %")


if __name__ == "__main__":
    main()
