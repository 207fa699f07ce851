"""The statistics of batch normalization, measured anew for the weights that training has come to.

Training keeps running averages over its last batches, and each of these met other weights. Where a
step still flips weights the averages lag behind, and the network looks worse than it is.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Any

from torch import Tensor, nn
from torch.optim.swa_utils import update_bn

from binaryrelax_lab.data import EpochPlan, ImageSource
from binaryrelax_lab.engine.cuda_graph import ONE_AT_A_TIME
from binaryrelax_lab.engine.machine import Machine

NUM_BATCHES = 100


def recalibrate(model: nn.Module, images: Iterable[Tensor], machine: Machine) -> None:
    """Makes the statistics averages over these batches of images."""
    with ONE_AT_A_TIME, machine.autocast():  # ordinary calls, while other runs may be capturing
        update_bn(images, model)


@contextmanager
def recalibrated(model: nn.Module, images: Iterable[Tensor], machine: Machine) -> Iterator[None]:
    """Inside, the statistics are such averages; after, as they were."""
    before = [buffer.clone() for buffer in model.buffers()]
    try:
        recalibrate(model, images, machine)
        yield
    finally:
        for buffer, old in zip(model.buffers(), before, strict=True):
            buffer.copy_(old)


def images_after_training(
    recipe: Mapping[str, Any], data: ImageSource, seed: int
) -> Iterator[Tensor]:
    """Batches as in training, of the epoch that would come after the last; a hundred at most.

    Args:
        recipe: the settings as they stand in ``result.json``.
    """
    same = {key: recipe[key] for key in ("batch_size", "flip", "crop_padding")}
    plan = EpochPlan(seed=seed, epoch=recipe["epochs"], **same)
    for batch in islice(data.train_batches(plan=plan), NUM_BATCHES):
        yield data.look_up(*batch)[0]
