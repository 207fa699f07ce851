"""Does it help to measure the statistics of batch normalization anew after training?

Reads networks from FOLDER/RECIPE/seedK/final.safetensors, tries each on the test images, as it is
and with statistics averaged over a hundred batches of training images, and writes what came out.

    python tools/recalibrate.py FOLDER --data DIR        writes results/findings/recalibration.json
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor
from torch.optim.swa_utils import update_bn

from binaryrelax.lab.data import EpochPlan, ImageSource, load_dataset
from binaryrelax.lab.engine.files import FINAL_NAME
from binaryrelax.lab.engine.machine import Machine
from binaryrelax.lab.engine.network import new_network
from binaryrelax.lab.packing import accuracy_of
from binaryrelax.lab.recipes import Recipe, find_recipe
from finding import write_finding

NUM_BATCHES = 100


def main() -> None:
    """Recalibrate all networks in a folder."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR")
    options = parser.parse_args()
    records = []
    for file in sorted(options.folder.glob(f"*/seed*/{FINAL_NAME}")):
        recipe, seed = find_recipe(file.parts[-3]), int(file.parts[-2].removeprefix("seed"))
        data = load_dataset(recipe.dataset, data=options.data)
        records.append(recalibrated(recipe, seed, file, data))
        print(records[-1])
    write_finding("recalibration", records, batches=NUM_BATCHES)


def recalibrated(recipe: Recipe, seed: int, file: Path, data: ImageSource) -> dict[str, Any]:
    """The accuracy of a network before and after."""
    model = new_network(recipe, data, seed)
    model.load_state_dict(load_file(file))
    before = accuracy_of(model, data, Machine())
    update_bn(training_images(recipe, seed, data), model)
    after = accuracy_of(model, data, Machine())
    return {"recipe": recipe.name, "seed": seed, "as_trained": before, "recalibrated": after}


def training_images(recipe: Recipe, seed: int, data: ImageSource) -> Iterator[Tensor]:
    """Batches as in training, in the order of the epoch after the last."""
    plan = EpochPlan(
        seed=seed,
        epoch=recipe.epochs,
        batch_size=recipe.batch_size,
        flip=recipe.flip,
        crop_padding=recipe.crop_padding,
    )
    for batch in islice(data.train_batches(plan=plan), NUM_BATCHES):
        yield data.look_up(*batch)[0]


if __name__ == "__main__":
    main()
