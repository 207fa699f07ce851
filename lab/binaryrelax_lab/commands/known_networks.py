"""What the lab tells the commands of the library: the networks in its files and run folders."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from torch import Tensor

from binaryrelax.cli.plugins import KnownNetwork
from binaryrelax.packed.file import PackedFile
from binaryrelax_lab.commands.errors import FOR_CALIBRATION, OF_READERS, ways_out
from binaryrelax_lab.data import load_dataset
from binaryrelax_lab.engine import Machine
from binaryrelax_lab.packing import (
    accuracy_of,
    example_images,
    images_as_trained,
    is_of_the_lab,
    load_packed_run,
    pack_run,
)


def known_network(path: Path) -> KnownNetwork | None:
    """The network in a packed file of ours, or that of a finished run; None if it is neither."""
    if path.is_dir():
        with TemporaryDirectory() as folder:
            file = Path(folder) / "packed.safetensors"
            with ways_out(OF_READERS):
                pack_run(path, file, fold_batchnorm=False)
            if not is_of_the_lab(PackedFile(file).manifest.about):
                raise ValueError(
                    f"{path} holds a language model, which no runtime here takes; "
                    "`binaryrelax pack` makes a file of it that load_packed reads"
                )
            return _known(file)
    return _known(path) if is_of_the_lab(PackedFile(path).manifest.about) else None


def _known(file: Path) -> KnownNetwork:
    """The network in a packed file of the lab's."""
    model, dataset = load_packed_run(file)

    def load_images(data: Path | None, download: bool) -> Callable[[], tuple[float, int]]:
        with ways_out():
            images = load_dataset(dataset, data=data, download=download)
        return lambda: (accuracy_of(model, images, Machine()), images.num_test)

    def load_training_images(data: Path, count: int) -> Tensor:
        with ways_out(FOR_CALIBRATION):
            return images_as_trained(load_dataset(dataset, data=data), count)

    return KnownNetwork(
        model,
        example_images(dataset),
        load_images,
        load_training_images,
        PackedFile(file).manifest.about,
    )
