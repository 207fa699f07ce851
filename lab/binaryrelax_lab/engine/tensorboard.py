"""TensorBoard logs of a run."""

import math
from pathlib import Path

from torch.utils.tensorboard import SummaryWriter

from binaryrelax.optim.monitor import LayerRecord
from binaryrelax_lab.engine.listener import Listener
from binaryrelax_lab.recipes import Recipe
from binaryrelax_lab.results import Epoch, TrainingResult

FOLDER_NAME = "tensorboard"
CURVES = ("train_loss", "lr", "strength", "phase")  # beside what was measured
LAYER_CURVES = (
    "distance", "float_distance", "scale", "zeros",
    "sign_flips", "level_flips", "movement", "alpha",
)  # fmt: skip


class TensorBoardLog(Listener):
    """Writes one point per epoch and curve into ``tensorboard/`` of a folder, a run each.

    Of quantized layers it shows all that ``measure`` tells, a chart for each quantity and a curve
    for each layer: ``distance/block1.conv.weight``.

    What an earlier run of the same recipe has logged is kept as far as it is resumed.
    """

    wants_layers = True

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run_started(self, recipe: Recipe, steps_per_epoch: int, steps_done: int) -> None:
        folder = self.folder / FOLDER_NAME / recipe.name
        if steps_done == 0:
            for old in folder.glob("events.out.tfevents.*"):
                old.unlink()
        # Epochs that were logged after the checkpoint come again: the reader drops the first ones.
        self._log = SummaryWriter(str(folder), purge_step=steps_done // steps_per_epoch)

    def epoch_finished(self, record: Epoch) -> None:
        for name in (*CURVES, *record.NEEDED, *record.OPTIONAL):
            value = getattr(record, name)
            if value is not None and math.isfinite(value):
                self._log.add_scalar(name, value, record.epoch)
        self._log.flush()

    def layers_measured(self, epoch: int, layers: list[LayerRecord]) -> None:
        for layer in layers:
            for name in LAYER_CURVES:
                value = getattr(layer, name)
                if value is not None:
                    self._log.add_scalar(f"{name}/{layer.name}", value, epoch)
        self._log.flush()

    def run_finished(self, result: TrainingResult) -> None:
        self._log.close()
