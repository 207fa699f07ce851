"""Files of networks made by other code than the library: small ones with every operation."""

from typing import Any

import numpy as np
from tests.packed.archive import Archive, StoredTensor

BINARY, TERNARY = (-1, 1), (-1, 0, 1)
INPUTS = {  # of each network, without the batch
    "residual": [(3, 9, 8)],
    "mobile": [(4, 8, 8)],
    "vectors": [(6,), (2, 4, 4)],
    "wide": [(3, 12, 12)],
}
UNSIGNED = "0" * 64  # `Archive.signed` puts digests in the place


class NetworkFileBuilder:
    """Puts a file together, weight by weight and operation by operation."""

    def __init__(self, *inputs: tuple[int, ...], mode: str = "exact", seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.tensors: dict[str, StoredTensor] = {}
        self.layers: dict[str, Any] = {}
        self.digests: dict[str, str] = {}
        self.tied: dict[str, str] = {}
        self.operations: list[dict[str, Any]] = []
        self.inputs, self.mode = [list(shape) for shape in inputs], mode

    def packed(
        self, name: str, shape: tuple[int, ...], levels: tuple[float, ...] = BINARY, **options: Any
    ) -> str:
        """A packed layer with random codes and scales."""
        granularity = options.get("granularity", "layer")
        rows, length = shape[0], int(np.prod(shape[1:]))
        codes = self.random.integers(len(levels), size=(rows, length))
        layout = options.get("layout", "trits" if len(levels) == 3 else "bits")
        content = (
            trits(codes)
            if layout == "trits"
            else packed_bits(codes, (len(levels) - 1).bit_length())
        )
        scales = {"layer": 1, "channel": rows}.get(granularity) or rows * length // granularity
        self.tensors[f"{name}.codes"] = StoredTensor("U8", list(content.shape), content.tobytes())
        scale = self.random.uniform(0.05, 0.15, scales).astype(np.float32)
        self.tensors[f"{name}.scale"] = StoredTensor("F32", [scales], scale.tobytes())
        self.layers[name] = {
            "kind": {2: "linear", 4: "conv2d"}[len(shape)],
            "shape": list(shape),
            "codebook": list(levels),
            "granularity": granularity,
            "dtype": "float32",
            "layout": layout,
            "digest": UNSIGNED,
        }
        return name

    def floats(self, name: str, *shape: int) -> str:
        """A float tensor with random values."""
        values = self.random.normal(size=shape, scale=0.5).astype(np.float32)
        self.tensors[name] = StoredTensor("F32", list(shape), values.tobytes())
        self.digests[name] = UNSIGNED
        return name

    def add(self, op: str, *inputs: int, **keys: Any) -> int:
        """An operation; gives the number of the value that it writes."""
        self.operations.append(
            {"op": op, "name": f"{op}{len(self.operations)}", "in": list(inputs), **keys}
        )
        return len(self.inputs) + len(self.operations) - 1

    def content(self, *outputs: int, layout: str | None = None) -> bytes:
        """The file."""
        values = len(self.inputs) + len(self.operations)
        program = {
            "mode": self.mode,
            "inputs": self.inputs,
            "operations": self.operations,
            "outputs": list(outputs),
            "ranges": [[-1.5, 2] if value % 3 else None for value in range(values)],
            "layout": layout or ("single" if len(outputs) == 1 else "tuple"),
        }
        manifest = {
            "version": 3,
            "layers": self.layers,
            "tensors": self.digests,
            "tied": self.tied,
            "folded": [],
            "about": {"task": "a small one"},
            "program": program,
        }
        return Archive(self.tensors, manifest).signed()


def packed_bits(codes: np.ndarray, bits: int) -> np.ndarray:
    """Rows of codes, lowest bits first."""
    planes = (codes[..., None] >> np.arange(bits) & 1).astype(np.uint8)
    return np.packbits(planes.reshape(len(codes), -1), axis=1, bitorder="little")


def trits(codes: np.ndarray) -> np.ndarray:
    """Rows of codes 0, 1 and 2, five to a byte."""
    padded = np.pad(codes, ((0, 0), (0, -codes.shape[1] % 5)))
    return (padded.reshape(len(codes), -1, 5) @ 3 ** np.arange(5)).astype(np.uint8)


def residual(mode: str) -> bytes:
    """A small ResNet with 1-bit convolutions."""
    net = NetworkFileBuilder((3, 9, 8), mode=mode)
    relu = {"kind": "relu"}
    around = {"stride": [1, 1], "padding": [1, 1, 1, 1], "dilation": [1, 1], "groups": 1}
    x = net.add(
        "conv",
        0,
        weight=net.floats("first.weight", 8, 3, 3, 3),
        bias=net.floats("first.bias", 8),
        activation=relu,
        **around,
    )
    y = net.add(
        "conv",
        x,
        weight=net.packed("conv1", (8, 8, 3, 3), granularity="channel"),
        factor=net.floats("factor", 8),
        bias=net.floats("conv1.bias", 8),
        activation=relu,
        **around,
    )
    y = net.add("conv", y, weight=net.packed("conv2", (8, 8, 3, 3)), factor="factor", **around)
    x = net.add("add", x, y, activation=relu)
    down = {**around, "stride": [2, 2]}
    y = net.add("conv", x, weight=net.packed("conv3", (20, 8, 3, 3)), **down)
    short = net.add("slice", x, axis=2, start=0, stop=None, step=2)
    short = net.add("slice", short, axis=3, start=0, stop=None, step=2)
    short = net.add("pad", short, padding=[0, 0, 0, 0, 6, 6], value=0)
    x = net.add("add", y, short, activation=relu)
    x = net.add("adaptive_pool", x, kind="average", size=[1, 1])
    x = net.add("flatten", x)
    x = net.add("linear", x, weight=net.packed("fc", (10, 20)), bias=net.floats("fc.bias", 10))
    return net.content(x)


def mobile(mode: str) -> bytes:
    """Ternary depthwise convolutions, squeeze and excitation, and activations of many kinds."""
    net = NetworkFileBuilder((4, 8, 8), mode=mode, seed=1)
    one = {"stride": [1, 1], "padding": [0, 0, 0, 0], "dilation": [1, 1], "groups": 1}
    x = net.add(
        "conv",
        0,
        weight=net.packed("expand", (12, 4, 1, 1), TERNARY),
        bias=net.floats("expand.bias", 12),
        activation={"kind": "relu6"},
        **one,
    )
    x = net.add(
        "conv",
        x,
        weight=net.packed("depthwise", (12, 1, 3, 3), TERNARY, granularity="channel"),
        activation={"kind": "hard_swish"},
        **{**one, "padding": [1, 1, 1, 1], "dilation": [2, 1], "groups": 12},
    )
    s = net.add("adaptive_pool", x, kind="average", size=[1, 1])
    s = net.add(
        "conv",
        s,
        weight=net.packed("squeeze", (3, 12, 1, 1), TERNARY, layout="bits"),
        activation={"kind": "silu"},
        **one,
    )
    s = net.add(
        "conv",
        s,
        weight=net.packed("excite", (12, 3, 1, 1), TERNARY),
        activation={"kind": "hard_sigmoid"},
        **one,
    )
    x = net.add("multiply", x, s)
    x = net.add(
        "affine",
        x,
        scale=net.floats("norm.scale", 12),
        shift=net.floats("norm.shift", 12),
        activation={"kind": "gelu_tanh"},
    )
    y = net.add(
        "pool",
        x,
        kind="max",
        kernel=[3, 2],
        stride=[2, 2],
        padding=[1, 1, 0, 0],
        dilation=[1, 2],
        ceil=True,
        count_padding=False,
    )
    y = net.add("upsample", y, kind="bilinear", size=[5, 6], align_corners=True)
    z = net.add(
        "pool",
        x,
        kind="average",
        kernel=[2, 2],
        stride=[2, 2],
        padding=[0, 1, 1, 0],
        ceil=False,
        count_padding=True,
    )
    z = net.add("upsample", z, kind="nearest", size=[5, 6], align_corners=False)
    z = net.add("upsample", z, kind="nearest", factor=[1.5, 2])
    z = net.add("adaptive_pool", z, kind="max", size=[5, 6])
    x = net.add("concat", y, z)
    x = net.add("activate", x, activation={"kind": "leaky_relu", "slope": 0.1})
    x = net.add("flatten", x)
    x = net.add(
        "linear",
        x,
        weight=net.packed("fc", (6, 720), TERNARY, granularity="channel"),
        activation={"kind": "tanh"},
    )
    return net.content(net.add("softmax", x, log=True))


def vectors(mode: str) -> bytes:
    """Two inputs and two outputs, codebooks of many levels, scales of groups, shared tensors."""
    net = NetworkFileBuilder((6,), (2, 4, 4), mode=mode, seed=2)
    seven, many = (-3, -2, -1, 0, 1, 2, 3), tuple(2 * level - 199 for level in range(200))
    x = net.add(
        "linear",
        0,
        weight=net.packed("groups", (10, 6), seven, granularity=3),
        bias=net.floats("bias", 10),
        activation={"kind": "gelu"},
    )
    net.layers["again"] = dict(net.layers["groups"])
    net.tied |= {"again.codes": "groups.codes", "again.scale": "groups.scale", "other": "bias"}
    y = net.add("linear", 0, weight="again", bias="other", factor="bias")
    x = net.add("multiply", x, y, activation={"kind": "clamp", "low": -1, "high": None})
    z = net.add("flatten", 1)
    z = net.add(
        "linear",
        z,
        weight=net.packed("wide", (10, 32), many, granularity="channel"),
        activation={"kind": "sigmoid"},
    )
    x = net.add("concat", x, z, x)
    x = net.add("slice", x, axis=1, start=3, stop=29, step=3)
    x = net.add("activate", x, activation={"kind": "clamp", "low": None, "high": 1.5})
    last = net.add("linear", x, weight=net.floats("last.weight", 4, 9))
    m = net.add(
        "conv",
        1,
        weight=net.packed("map", (6, 1, 2, 2), (-2, 0.5, 1), granularity=2, layout="bits"),
        stride=[1, 2],
        padding=[0, 1, 1, 0],
        dilation=[1, 1],
        groups=2,
    )
    return net.content(last, net.add("softmax", m, log=False))


def wide(mode: str) -> bytes:
    """Convolutions of so many channels that they have ways of their own."""
    net = NetworkFileBuilder((3, 12, 12), mode=mode, seed=3)
    around = {"stride": [1, 1], "padding": [1, 1, 1, 1], "dilation": [1, 1], "groups": 1}
    one = {**around, "padding": [0, 0, 0, 0]}
    relu = {"kind": "relu"}
    x = net.add("conv", 0, weight=net.packed("first", (64, 3, 1, 1)), activation=relu, **one)
    y = net.add("conv", x, weight=net.packed("conv1", (20, 64, 3, 3)), activation=relu, **around)
    y = net.add("conv", y, weight=net.packed("conv2", (64, 20, 1, 1), TERNARY), **one)
    x = net.add("add", x, y, activation=relu)
    x = net.add("conv", x, weight=net.packed("conv3", (5, 64, 3, 3), TERNARY), **around)
    return net.content(net.add("adaptive_pool", x, kind="average", size=[1, 1]))


def networks() -> dict[str, bytes]:
    """A file of every kind, in both modes."""
    makers = {"residual": residual, "mobile": mobile, "vectors": vectors, "wide": wide}
    return {
        f"{name} {mode}": make(mode) for name, make in makers.items() for mode in ("exact", "fast")
    }
