"""A plain PyTorch ResNet, restored from a state dict and converted to ternary weights.

The network is written in this file, as in many a project: nothing in it knows of quantization. Its
float weights come from a safetensors file with ordinary parameter names. A few epochs of
fine-tuning with BinaryRelax move the convolutions into Q, and the result is packed.

    python examples/resnet_from_state_dict.py                # about 95 seconds; needs no data
    python examples/resnet_from_state_dict.py --data DIR     # CIFAR-10 in DIR; not timed
    python examples/resnet_from_state_dict.py --short        # about 11 seconds; needs no data

With ``--data`` the script trains and tests on CIFAR-10 and prints test accuracy. Without it the
script takes Fashion-MNIST pictures, grey and 32 pixels wide, and the float network's own answers
as labels. It then prints how often the ternary network agrees with the float one, on pictures that
neither has trained on. That shows the mechanics and is no accuracy. The first command prints, with
other figures on other machines:

    float: 100.0 % agreement with the float network
    projected at once, untrained: 3.1 % agreement with the float network
      epoch  1  λ    1.8  in Q 18.0 %
      epoch  2  λ    3.4  in Q 38.2 %
      epoch  3  λ    6.5  in Q 45.3 %
      epoch  4  λ   12.0  in Q 49.3 %
      epoch  5  λ   23.0  in Q 53.4 %
      epoch  6  λ   42.4  in Q 56.1 %
      epoch  7  λ   81.4  in Q 59.3 %
      epoch  8  λ  150.0  in Q 61.3 %
      epoch  9  λ    inf  in Q 60.7 %
      epoch 10  λ    inf  in Q 60.9 %
    ternary: last 60.9 %, best 60.9 % agreement with the float network
    packed and certified: resnet20.safetensors, 73,592 bytes, 14.6 times smaller than float32
    loaded: 60.9 % agreement with the float network
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.lr_scheduler import CosineAnnealingLR

from binaryrelax import (
    BinaryRelax,
    GeometricGrowth,
    TernaryThreshold,
    certify,
    load_packed,
    pack,
    save_packed,
    select_weights,
)
from binaryrelax_lab.data import load_cifar, load_fashion_mnist

STATE = Path(__file__).parents[1] / "networks/float/cifar10-resnet20-float-plus-seed0.safetensors"
MEAN = torch.tensor([0.4914, 0.4822, 0.4465]).view(3, 1, 1)
DEVIATION = torch.tensor([0.2470, 0.2435, 0.2616]).view(3, 1, 1)


class Block(nn.Module):
    """Two 3x3 convolutions and a shortcut without parameters."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        stride = 1 if inputs == outputs else 2
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.missing = outputs - inputs

    def forward(self, x: Tensor) -> Tensor:
        """The features, with what the convolutions have found added."""
        found = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)))))
        if self.missing:
            half = self.missing // 2
            x = functional.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, half, self.missing - half))
        return functional.relu(found + x)


class ResNet20(nn.Module):
    """He et al.'s network of depth 20 for CIFAR-10."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = nn.Sequential(Block(16, 16), Block(16, 16), Block(16, 16))
        self.layer2 = nn.Sequential(Block(16, 32), Block(32, 32), Block(32, 32))
        self.layer3 = nn.Sequential(Block(32, 64), Block(64, 64), Block(64, 64))
        self.fc = nn.Linear(64, 10)

    def forward(self, images: Tensor) -> Tensor:
        """Scores of the ten classes, one row per image."""
        x = functional.relu(self.bn1(self.conv1(images)))
        return self.fc(self.layer3(self.layer2(self.layer1(x))).mean(dim=(2, 3)))


@dataclass
class Data:
    """Images (count, 3, 32, 32), normalised, with labels; and what the figure is called."""

    train: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]
    figure: str


def cifar10(folder: Path) -> Data:
    """The reader's copy of CIFAR-10, an official archive or folder."""
    source = load_cifar("cifar10", folder)
    return Data(
        train=(_prepared(source.train_images), source.train_labels),
        test=(_prepared(source.test_images), source.test_labels),
        figure="test accuracy",
    )


def stand_in(float_network: nn.Module, num_train: int, num_test: int) -> Data:
    """Grey pictures of clothes; the labels are what the float network says of them."""
    source = load_fashion_mnist()
    pixels = torch.cat([source.train_images[:num_train], source.test_images[:num_test]])
    grey = functional.pad(pixels, (0, 0, 2, 2, 2, 2)).expand(-1, -1, -1, 3)
    images = _prepared(grey)
    labels = scores(float_network, images).argmax(1)
    return Data(
        train=(images[:num_train], labels[:num_train]),
        test=(images[num_train:], labels[num_train:]),
        figure="agreement with the float network",
    )


def _prepared(images: Tensor) -> Tensor:
    return (images.permute(0, 3, 1, 2).float() / 255 - MEAN) / DEVIATION


def moved(images: Tensor) -> Tensor:
    """The batch moved by up to four pixels, half of the time mirrored."""
    down, right = torch.randint(0, 9, (2,)).tolist()
    window = functional.pad(images, (4, 4, 4, 4))[:, :, down : down + 32, right : right + 32]
    return window.flip(3) if torch.rand(()) < 0.5 else window


@torch.no_grad()
def scores(model: nn.Module, images: Tensor) -> Tensor:
    """What the model says of all images, in batches."""
    model.eval()
    return torch.cat([model(batch) for batch in images.split(250)])


def percent_right(model: nn.Module, test: tuple[Tensor, Tensor]) -> float:
    """How often the model gives the label."""
    images, labels = test
    return 100 * float((scores(model, images).argmax(1) == labels).float().mean())


def converted(
    model: nn.Module, data: Data, epochs: int, batch: int
) -> dict[Tensor, TernaryThreshold]:
    """Fine-tunes the model until its convolutions are ternary."""
    images, labels = data.train
    steps = len(images) // batch
    base = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)
    weights = select_weights(model, TernaryThreshold(), keep_float=("fc",))
    schedule = GeometricGrowth.reaching(150.0, phase_one_steps=steps * epochs * 4 // 5, every=4)
    optimizer = BinaryRelax(base, weights, schedule)
    with optimizer.projected():
        at_once = percent_right(model, data.test)
    print(f"projected at once, untrained: {at_once:.1f} % {data.figure}")
    scheduler = CosineAnnealingLR(optimizer, T_max=epochs * steps)
    best = last = 0.0
    for epoch in range(epochs):
        model.train()
        for rows in torch.randperm(len(images))[: steps * batch].view(steps, batch):
            optimizer.zero_grad()
            functional.cross_entropy(model(moved(images[rows])), labels[rows]).backward()
            optimizer.step()
            scheduler.step()
        with optimizer.projected():
            last = percent_right(model, data.test)
        best = max(best, last) if optimizer.phase == 2 else best
        print(f"  epoch {epoch + 1:2}  λ {optimizer.strength:6.1f}  in Q {last:.1f} %")
    print(f"ternary: last {last:.1f} %, best {best:.1f} % {data.figure}")
    return weights


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description="Restore a ResNet-20 from a state dict and convert it to ternary weights."
    )
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="where CIFAR-10 lies; stand-in pictures if not given",
    )
    parser.add_argument("--state", type=Path, default=STATE, metavar="FILE", help="float weights")
    parser.add_argument("--epochs", type=int, help="30 with --data, 10 without")
    parser.add_argument("--out", type=Path, default=Path("resnet20.safetensors"), metavar="FILE")
    parser.add_argument("--short", action="store_true", help="few stand-in pictures: seconds")
    return parser.parse_args()


def main() -> None:
    """Restore, test, convert, pack."""
    chosen = options()
    torch.manual_seed(0)
    model = ResNet20()
    model.load_state_dict(load_file(chosen.state))
    if chosen.data:
        data, epochs, batch = cifar10(chosen.data), chosen.epochs or 30, 128
    elif chosen.short:
        data, epochs, batch = stand_in(model, num_train=512, num_test=400), 5, 32
    else:
        data, epochs, batch = (
            stand_in(model, num_train=4_000, num_test=1_000),
            chosen.epochs or 10,
            64,
        )
    print(f"float: {percent_right(model, data.test):.1f} % {data.figure}")
    weights = converted(model, data, epochs, batch)
    save_packed(pack(model, weights, fold_batchnorm=True), chosen.out)
    certificate = certify(chosen.out)
    if not certificate.ok:
        raise SystemExit(certificate.reason)
    size = f"{certificate.file_bytes:,} bytes, {certificate.saving:.1f} times smaller than float32"
    print(f"packed and certified: {chosen.out.name}, {size}")
    loaded = load_packed(chosen.out, ResNet20())
    print(f"loaded: {percent_right(loaded, data.test):.1f} % {data.figure}")


if __name__ == "__main__":
    main()
