"""From a network of your own to a packed file that classifies an image.

A small convolutional network learns Fashion-MNIST, first in float. It then goes on with ternary
weights: every weight of its convolutions ends at -scale, 0 or +scale. The network is packed, saved,
certified, loaded into a fresh model, and asked about one image. The images come with
``binaryrelax_lab``: 10,000 to train on, 2,000 to test with.

    python examples/image_classifier.py                  # about 25 seconds on one core
    python examples/image_classifier.py --short          # about 5 seconds
    python examples/image_classifier.py --picture p.png  # also draws a layer's weights

The first command prints, with other figures on other machines:

    float:   last 88.4 %, best 88.4 %
      epoch  1  λ    1.9  in Q 76.1 %
      epoch  2  λ    3.5  in Q 70.3 %
      epoch  3  λ    6.5  in Q 65.2 %
      epoch  4  λ   12.2  in Q 64.0 %
      epoch  5  λ   22.9  in Q 84.1 %
      epoch  6  λ   42.9  in Q 81.8 %
      epoch  7  λ   80.2  in Q 80.8 %
      epoch  8  λ  150.0  in Q 84.8 %
      epoch  9  λ    inf  in Q 81.3 %
      epoch 10  λ    inf  in Q 88.1 %
    ternary: last 88.1 %, best 88.1 %
    packed and certified: classifier.safetensors, 11,976 bytes, 8.0 times smaller than float32
      conv1: codes (-1.0, 0.0, 1.0), 2.00 bits per weight
      conv2: codes (-1.0, 0.0, 1.0), 1.62 bits per weight
      conv3: codes (-1.0, 0.0, 1.0), 1.72 bits per weight
    loaded:  88.1 % (before packing 88.1 %)
    image 0: the network says Ankle boot, the label Ankle boot

"best" is the best epoch whose weights lie in Q. It is chosen by the test images, so it flatters.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import torch
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
from binaryrelax_lab.data import load_fashion_mnist
from binaryrelax_lab.data.fashion_mnist import CLASS_NAMES

BATCH = 128


class Classifier(nn.Module):
    """Your network: nothing in it knows of quantization."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(32)
        self.conv3 = nn.Conv2d(32, 64, 3, padding=1, bias=False)
        self.norm3 = nn.BatchNorm2d(64)
        self.fc = nn.Linear(64, 10)

    def forward(self, images: Tensor) -> Tensor:
        """Scores of the ten classes, one row per image."""
        x = functional.relu(self.norm1(functional.max_pool2d(self.conv1(images), 2)))
        x = functional.relu(self.norm2(functional.max_pool2d(self.conv2(x), 2)))
        x = functional.relu(self.norm3(self.conv3(x)))
        return self.fc(x.mean(dim=(2, 3)))


class Images:
    """Training and test images as float tensors, normalised."""

    def __init__(self, num_train: int) -> None:
        source = load_fashion_mnist()
        self.mean, self.deviation = source.mean[0], source.deviation[0]
        keep = torch.randperm(source.num_train)[:num_train]
        self.train = self.prepared(source.train_images[keep]), source.train_labels[keep]
        self.test = self.prepared(source.test_images), source.test_labels

    def prepared(self, images: Tensor) -> Tensor:
        """Bytes (count, 28, 28, 1) to what the network takes, (count, 1, 28, 28)."""
        return (images.permute(0, 3, 1, 2).float() / 255 - self.mean) / self.deviation


@torch.no_grad()
def accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    """Percent of the images that the model classifies right."""
    model.eval()
    right = sum(
        int((model(batch).argmax(1) == wanted).sum())
        for batch, wanted in zip(images.split(500), labels.split(500), strict=True)
    )
    return 100 * right / len(labels)


def train(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    data: Images,
    epochs: int,
    after_epoch: Callable[[int], None],
) -> None:
    """A plain PyTorch loop. It is the same for float and for ternary weights."""
    images, labels = data.train
    steps = len(images) // BATCH
    scheduler = CosineAnnealingLR(optimizer, T_max=epochs * steps)
    for epoch in range(epochs):
        model.train()
        for rows in torch.randperm(len(images))[: steps * BATCH].view(steps, BATCH):
            optimizer.zero_grad()
            functional.cross_entropy(model(images[rows]), labels[rows]).backward()
            optimizer.step()
            scheduler.step()
        after_epoch(epoch)


def train_float(model: nn.Module, data: Images, epochs: int) -> None:
    """Float weights, as you would train them anyway."""
    base = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    found: list[float] = []
    train(model, base, data, epochs, lambda _: found.append(accuracy(model, *data.test)))
    print(f"float:   last {found[-1]:.1f} %, best {max(found):.1f} %")


def train_ternary(
    model: nn.Module, data: Images, epochs: int
) -> tuple[dict[Tensor, TernaryThreshold], list[tuple[str, Tensor]]]:
    """Three lines more: choose weights, choose how λ grows, wrap the optimizer."""
    base = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    steps = len(data.train[0]) // BATCH
    phase_one = steps * epochs * 4 // 5  # the last fifth of the epochs is Phase II

    weights = select_weights(model, TernaryThreshold(), keep_float=("fc",))
    schedule = GeometricGrowth.reaching(150.0, phase_one_steps=phase_one, every=max(steps // 4, 1))
    optimizer = BinaryRelax(base, weights, schedule)

    in_q: list[float] = []
    seen = [("float", next(iter(optimizer.float_weights.values())).clone())]

    def look(epoch: int) -> None:
        with optimizer.projected():  # in Phase I: as the weights would be if hardened now
            found = accuracy(model, *data.test)
        print(f"  epoch {epoch + 1:2}  λ {optimizer.strength:6.1f}  in Q {found:.1f} %")
        if optimizer.phase == 2:
            in_q.append(found)
        name = "Phase II" if optimizer.phase == 2 else f"λ = {optimizer.strength:.0f}"
        seen.append((name, model.conv1.weight.detach().clone()))

    train(model, optimizer, data, epochs, look)
    print(f"ternary: last {in_q[-1]:.1f} %, best {max(in_q):.1f} %")
    return weights, seen


def ship(model: nn.Module, weights: dict[Tensor, TernaryThreshold], file: Path) -> nn.Module:
    """Pack, save, certify, and load into a fresh model."""
    save_packed(pack(model, weights, fold_batchnorm=True), file)
    certificate = certify(file)
    if not certificate.ok:
        raise SystemExit(certificate.reason)
    size = f"{certificate.file_bytes:,} bytes, {certificate.saving:.1f} times smaller than float32"
    print(f"packed and certified: {file.name}, {size}")
    for layer in certificate.layers:
        print(
            f"  {layer.name}: codes {layer.codebook}, {layer.bits_per_weight:.2f} bits per weight"
        )
    return load_packed(file, Classifier())


def draw(seen: list[tuple[str, Tensor]], path: Path) -> None:
    """Histograms of the first convolution's weights, from float to three values."""
    from matplotlib.figure import Figure

    shown = [seen[0], seen[1], seen[len(seen) // 2], seen[-1]]
    figure = Figure(figsize=(10, 2.6), layout="constrained")
    for axes, (title, weight) in zip(figure.subplots(1, len(shown)), shown, strict=True):
        axes.hist(weight.flatten().numpy(), bins=60, color="#4056a1")
        axes.set_title(title)
        axes.set_yticks([])
    figure.supxlabel("weights of conv1")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    print(f"picture: {path.name}")


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description="Train a small network on Fashion-MNIST in float, then with ternary weights; "
        "pack it, load it and classify an image."
    )
    parser.add_argument("--short", action="store_true", help="2,000 images and few epochs: seconds")
    parser.add_argument("--out", type=Path, default=Path("classifier.safetensors"), metavar="FILE")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw a layer's weights")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def main() -> None:
    """Float, ternary, packed, classified."""
    chosen = options()
    torch.manual_seed(chosen.seed)
    epochs = 5 if chosen.short else 10
    data = Images(num_train=2_000 if chosen.short else 10_000)
    model = Classifier()
    train_float(model, data, epochs)
    weights, seen = train_ternary(model, data, epochs)
    before = accuracy(model, *data.test)
    loaded = ship(model, weights, chosen.out)
    print(f"loaded:  {accuracy(loaded, *data.test):.1f} % (before packing {before:.1f} %)")
    images, labels = data.test
    says = CLASS_NAMES[int(loaded(images[:1]).argmax())]
    print(f"image 0: the network says {says}, the label {CLASS_NAMES[int(labels[0])]}")
    if chosen.picture:
        draw(seen, chosen.picture)


if __name__ == "__main__":
    main()
