"""Load a packed network, prove what it holds, classify, and export it.

The network is one of those in ``networks/``: a ResNet-20 for CIFAR-10 with ternary convolutions. No
training happens here. The script certifies the file, loads it into a model built in Python and
classifies images. It then exports the network to ONNX and to the native runtime, runs both files
and compares outputs and times.

    pip install '.[onnx]' ./lab ./native
    python examples/packed_deployment.py                      # about 5 seconds
    python examples/packed_deployment.py --image photo.png    # a picture of yours
    python examples/packed_deployment.py --short              # fewer images, layers and repeats

Without ``--image`` the input is noise: the answers mean nothing, the agreement does. The packed
model is the slowest here: the layers of ResNet-20 are too small to be called from Python one by
one. The first command prints, with other figures on other machines:

    certified: 19 packed layers, all in Q
    size: 92,964 bytes, 11.7 times under float32
      conv1: 3 values per scale, 57% zeros, 1.85 bits per weight
      layer1.0.conv1: 3 values per scale, 64% zeros, 1.62 bits per weight
      layer1.0.conv2: 3 values per scale, 60% zeros, 1.62 bits per weight
      layer1.1.conv1: 3 values per scale, 58% zeros, 1.62 bits per weight
      layer1.1.conv2: 3 values per scale, 58% zeros, 1.62 bits per weight
    noise: the network says bird
    mode fast: same class for 16 of 16 images
    ONNX: resnet20.onnx, 107,350 bytes
      largest difference 5e-07 of the largest output
      same class for 16 of 16 images
      16 images: packed 13.6 ms, ONNX Runtime 3.8 ms
    native, exact: resnet20.brx, 83,348 bytes
      same class for 16 of 16 images
      16 images: 4.6 ms
    native, fast: resnet20.brx, 84,252 bytes
      same class for 16 of 16 images
      16 images: 1.4 ms
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from binaryrelax import Certificate, certify, export_native, export_onnx, load_packed, set_mode
from binaryrelax_lab.models import build_network

NETWORK = Path(__file__).parents[1] / "networks/cifar10-resnet20-ternary-tuned.safetensors"
CLASSES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)


def describe(certificate: Certificate, num_layers: int) -> None:
    """What the file proves of itself."""
    print(f"certified: {len(certificate.layers)} packed layers, all in Q")
    print(f"size: {certificate.file_bytes:,} bytes, {certificate.saving:.1f} times under float32")
    for layer in certificate.layers[:num_layers]:
        values = f"{layer.distinct_values} values per scale, {layer.zeros:.0%} zeros"
        print(f"  {layer.name}: {values}, {layer.bits_per_weight:.2f} bits per weight")


def read_image(path: Path) -> Tensor:
    """A picture as (1, 3, 32, 32) between 0 and 1."""
    from PIL import Image

    with Image.open(path) as picture:
        pixels = np.asarray(picture.convert("RGB").resize((32, 32)), dtype=np.float32)
    return torch.from_numpy(pixels / 255).permute(2, 0, 1)[None]


def normalised(images: Tensor, about: dict[str, str]) -> Tensor:
    """The file says which mean and deviation its network was trained with."""
    mean, deviation = (
        torch.tensor([float(number) for number in about[key].split()]).view(3, 1, 1)
        for key in ("mean", "deviation")
    )
    return (images - mean) / deviation


def milliseconds(run: Callable[[], object], repeats: int) -> float:
    """The least time of several calls."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return 1000 * min(times)


def compare_with_onnx(model: nn.Module, images: Tensor, file: Path, repeats: int) -> None:
    """Exports the network, runs the file, and compares outputs and times."""
    import onnxruntime

    export_onnx(model, images, file)
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    given = {session.get_inputs()[0].name: images.numpy()}
    with torch.no_grad():
        ours = model(images).numpy()
        packed_time = milliseconds(lambda: model(images), repeats)
    [theirs] = session.run(None, given)
    difference = np.abs(theirs - ours).max() / np.abs(ours).max()
    same = int((theirs.argmax(1) == ours.argmax(1)).sum())
    print(f"ONNX: {file.name}, {file.stat().st_size:,} bytes")
    print(f"  largest difference {difference:.0e} of the largest output")
    print(f"  same class for {same} of {len(images)} images")
    onnx_time = milliseconds(lambda: session.run(None, given), repeats)
    print(f"  {len(images)} images: packed {packed_time:.1f} ms, ONNX Runtime {onnx_time:.1f} ms")


def compare_with_native(model: nn.Module, images: Tensor, file: Path, repeats: int) -> None:
    """The same with the native runtime, in both modes; it needs no torch to run the file."""
    import binaryrelax_native

    with torch.no_grad():
        ours = model(images).numpy()
    for mode in ("exact", "fast"):
        ranges = None if mode == "exact" else images  # better: a hundred images of training
        export_native(model, images, file, mode=mode, calibration=ranges)
        network = binaryrelax_native.load(file)
        found = network(images.numpy())
        same = int((found.argmax(1) == ours.argmax(1)).sum())
        print(f"native, {mode}: {file.name}, {file.stat().st_size:,} bytes")
        print(f"  same class for {same} of {len(images)} images")
        native_time = network.run_time_ms(images.numpy(), repetitions=repeats)
        print(f"  {len(images)} images: {native_time:.1f} ms")


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description="Certify a packed network, classify with it, export it to ONNX and compare."
    )
    parser.add_argument("--network", type=Path, default=NETWORK, metavar="FILE")
    parser.add_argument("--image", type=Path, metavar="FILE", help="a picture to classify")
    parser.add_argument("--out", type=Path, default=Path("resnet20.onnx"), metavar="FILE")
    parser.add_argument("--short", action="store_true", help="fewer images and repetitions")
    return parser.parse_args()


def main() -> None:
    """Certify, load, classify, export."""
    chosen = options()
    torch.manual_seed(0)
    certificate = certify(chosen.network)
    if not certificate.ok:
        raise SystemExit(certificate.reason)
    describe(certificate, num_layers=2 if chosen.short else 5)

    model = load_packed(chosen.network, build_network("resnet20", num_channels=3, num_classes=10))
    images = torch.rand(4 if chosen.short else 16, 3, 32, 32)
    if chosen.image:
        images = read_image(chosen.image)
    inputs = normalised(images, certificate.about)
    with torch.no_grad():
        exact = model(inputs)
        set_mode(model, "fast")  # int8 activations, where a kernel gains by it
        fast = model(inputs)
        set_mode(model, "exact")
    what = "the picture" if chosen.image else "noise"
    print(f"{what}: the network says {CLASSES[int(exact[0].argmax())]}")
    same = int((fast.argmax(1) == exact.argmax(1)).sum())
    print(f"mode fast: same class for {same} of {len(images)} images")
    repeats = 3 if chosen.short else 20
    compare_with_onnx(model, inputs, chosen.out, repeats)
    if find_spec("binaryrelax_native"):
        compare_with_native(model, inputs, chosen.out.with_suffix(".brx"), repeats)


if __name__ == "__main__":
    main()
