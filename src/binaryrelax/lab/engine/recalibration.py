"""The statistics of batch normalization, measured anew for the weights that training has come to.

Training keeps running averages over its last batches, and each of these met other weights. Where a
step still flips weights the averages lag behind, and the network looks worse than it is.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice

from torch import Tensor, nn
from torch.optim.swa_utils import update_bn

from binaryrelax.lab.data import EpochPlan, ImageSource
from binaryrelax.lab.engine.machine import Machine
from binaryrelax.lab.recipes import Recipe

NUM_BATCHES = 100


@contextmanager
def recalibrated(model: nn.Module, images: Iterable[Tensor], machine: Machine) -> Iterator[None]:
    """Inside, the statistics are averages over these batches of images; after, as they were."""
    before = [buffer.clone() for buffer in model.buffers()]
    try:
        with machine.autocast():
            update_bn(images, model)
        yield
    finally:
        for buffer, old in zip(model.buffers(), before, strict=True):
            buffer.copy_(old)


def images_after_training(recipe: Recipe, data: ImageSource, seed: int) -> Iterator[Tensor]:
    """Batches as in training, of the epoch that would come after the last; a hundred at most."""
    plan = EpochPlan(
        seed=seed,
        epoch=recipe.epochs,
        batch_size=recipe.batch_size,
        flip=recipe.flip,
        crop_padding=recipe.crop_padding,
    )
    for batch in islice(data.train_batches(plan=plan), NUM_BATCHES):
        yield data.look_up(*batch)[0]
