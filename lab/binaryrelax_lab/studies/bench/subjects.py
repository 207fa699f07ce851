"""The networks that `bench networks` measures, and images for them.

A trained one is a packed file in the folder `networks`; others have random weights, projected onto
Q, which run as fast.
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import update_bn

from binaryrelax import Binary, PackedLayer, Quantizer, Ternary, pack, select_weights
from binaryrelax_lab.data import (
    IMAGE_SHAPES,
    NORMALISATIONS,
    NUM_CLASSES,
    ImageSet,
    load_fashion_mnist,
)
from binaryrelax_lab.data.source import Normalisation
from binaryrelax_lab.models import build_network
from binaryrelax_lab.packing import load_packed_run

QUANTIZERS: dict[str, Quantizer] = {"1 bit": Binary(), "ternary": Ternary()}
LARGE = 64  # pixels a side; from here on fewer images calibrate
NUM_CALIBRATION, NUM_LARGE = 512, 32  # images; multiples of all batch sizes
NUM_TIMED = 16


@dataclass(frozen=True)
class Subject:
    """A network to measure.

    Args:
        dataset: what its images and classes are those of.
        files: by the width of the weights, trained networks in the folder; else they are random.
    """

    network: str
    dataset: str
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def side(self) -> int:
        """Pixels along an edge of its images."""
        return IMAGE_SHAPES[self.dataset][1]

    def build(self) -> nn.Module:
        """The network, not trained."""
        return build_network(self.network, IMAGE_SHAPES[self.dataset][0], NUM_CLASSES[self.dataset])


def _trained(network: str, dataset: str, ending: str = "") -> Subject:
    names = {"1 bit": "binary", "ternary": "ternary"}
    files = {
        weights: f"{dataset}-{network}-{name}{ending}.safetensors"
        for weights, name in names.items()
    }
    return Subject(network, dataset, files)


SUBJECTS = (
    _trained("resnet20", "cifar10", "-tuned"),
    _trained("resnet18", "cifar100"),
    Subject("vgg16", "cifar10"),
    Subject("resnet18-imagenet", "imagenet"),
    Subject("mobilenet-v2", "imagenet"),
)


@dataclass(frozen=True, eq=False)
class Twins:
    """One network twice: packed, and with the same weights in float32."""

    packed: nn.Module
    floats: nn.Module


def twins(subject: Subject, weights: str, folder: Path) -> Twins:
    """The subject with weights of that width.

    Raises:
        ValueError: the folder has not the file.
    """
    if weights not in subject.files:
        return _random_twins(subject, QUANTIZERS[weights])
    file = folder / subject.files[weights]
    if not file.is_file():
        raise ValueError(f"bench networks: there is no {file}; run it in the source folder")
    packed, _ = load_packed_run(file)
    return Twins(packed, _unpacked(subject, packed))


def _random_twins(subject: Subject, quantizer: Quantizer) -> Twins:
    with torch.random.fork_rng(), torch.inference_mode(False):
        torch.manual_seed(0)
        model = subject.build()
        weights = select_weights(model, quantizer, keep_float=("fc",))
        for weight in weights:
            weight.data = quantizer.project(weight.data)
        with torch.no_grad():
            update_bn([_embedded(subject.dataset, NUM_TIMED)], model)
        floats = deepcopy(model.eval())
        return Twins(pack(model, weights), floats)


def _unpacked(subject: Subject, packed: nn.Module) -> nn.Module:
    model = subject.build()
    weights = {
        f"{name}.weight": layer.weight.detach()
        for name, layer in packed.named_modules()
        if isinstance(layer, PackedLayer)
    }
    state = {**packed.state_dict(), **weights}
    model.load_state_dict({name: state[name] for name in model.state_dict()})
    return model.eval()


@dataclass(frozen=True, eq=False)
class Images:
    """What a network is measured with.

    Args:
        calibration: training images, for engines that want to know ranges beforehand.
        timed: test images.
    """

    calibration: Tensor
    timed: Tensor


def images_for(subject: Subject, data: ImageSet | None) -> Images:
    """Images of the data set; without it embedded ones, as large and colourful as is wanted."""
    count = NUM_CALIBRATION if subject.side < LARGE else NUM_LARGE
    if data is None:
        embedded = _embedded(subject.dataset, count + NUM_TIMED)
        return Images(embedded[:count], embedded[count:])
    normalise = Normalisation(data.mean, data.deviation, data.device)
    pixels = data.train_images[:count], data.test_images[:NUM_TIMED]
    return Images(*(normalise(rows).contiguous() for rows in pixels))


def _embedded(dataset: str, count: int) -> Tensor:
    channels, side, _ = IMAGE_SHAPES[dataset]
    grey = load_fashion_mnist().train_images[:count].permute(0, 3, 1, 2).float() / 255
    large = nn.functional.interpolate(grey, (side, side), mode="bilinear", align_corners=False)
    mean, deviation = (
        torch.tensor(values).view(channels, 1, 1) for values in NORMALISATIONS[dataset]
    )
    return ((large - mean) / deviation).contiguous()
