"""Ways to forge a packed file whose digests are right, as somebody who means harm would.

Each takes random numbers, the file, and another file, and returns a file.
"""

import math
import struct
from random import Random

from tests.packed.archive import KEY, SIZES, Archive, StoredTensor
from tests.packed.damage import Mutation, set_any_field


def forge_manifest(random: Random, content: bytes, other: bytes) -> bytes:
    """A changed manifest with digests that are right."""
    archive = Archive.of(content)
    for _ in range(random.choice([1, 1, 2, 3])):
        set_any_field(random, archive)
    return archive.signed()


def forge_layer(random: Random, content: bytes, other: bytes) -> bytes:
    """A layer that is another one in its manifest, with tensors that may fit it."""
    archive = Archive.of(content)
    layers = archive.manifest["layers"]
    name = random.choice(list(layers))
    entry = layers[name]
    _LAYER_FORGERIES[random.randrange(len(_LAYER_FORGERIES))](random, archive, name, entry)
    return archive.signed()


def forge_tensors(random: Random, content: bytes, other: bytes) -> bytes:
    """Other bytes, dtypes, shapes or names of tensors, with digests that are right."""
    archive = Archive.of(content)
    for _ in range(random.choice([1, 1, 2])):
        name = random.choice(list(archive.tensors))
        _TENSOR_FORGERIES[random.randrange(len(_TENSOR_FORGERIES))](random, archive, name)
    return archive.signed()


def forge_places(random: Random, content: bytes, other: bytes) -> bytes:
    """Ties, foldings and names that say other things, with digests that are right."""
    archive = Archive.of(content)
    for _ in range(random.choice([1, 1, 2])):
        _PLACE_FORGERIES[random.randrange(len(_PLACE_FORGERIES))](random, archive)
    return archive.signed()


def transplant(random: Random, content: bytes, other: bytes) -> bytes:
    """Tensors and layers of another file in this one, with digests that are right."""
    archive, donor = Archive.of(content), Archive.of(other)
    for name in random.sample(list(donor.tensors), random.randrange(1, 4)):
        archive.tensors[name] = donor.tensors[name]
        if random.random() < 0.7:
            archive.manifest["tensors"].setdefault(name, "0" * 64)
    for name in random.sample(list(donor.manifest["layers"]), random.randrange(2)):
        archive.manifest["layers"][name] = donor.manifest["layers"][name]
    return archive.signed()


def _other_shape(random: Random, archive: Archive, name: str, entry: dict) -> None:
    shape = list(entry["shape"])
    entry["shape"] = random.choice(
        [shape[::-1], [*shape, 1], shape[:-1], [1, *shape], [shape[0], 2**20, *shape[2:]],
         [2**20, *shape[1:]], [shape[0] * 2, *shape[1:]], [2**39, 2], [shape[0], *shape[1:][::-1]]]
    )  # fmt: skip


def _other_granularity(random: Random, archive: Archive, name: str, entry: dict) -> None:
    """One whose scales are there, or not."""
    entry["granularity"] = random.choice(["layer", "channel", 1, 2, 3, 9, 2**40])
    if random.random() < 0.7:
        shape, size = entry["shape"], entry["granularity"]
        weights = math.prod(shape)
        number = {"layer": 1, "channel": shape[0]}.get(size) or max(1, weights // size)
        scales = struct.pack("<f", random.choice([0.5, 0.25, 1e-3])) * number
        _replace(archive, f"{name}.scale", StoredTensor("F32", [number], scales))


def _other_codebook(random: Random, archive: Archive, name: str, entry: dict) -> None:
    size = len(entry["codebook"])
    entry["codebook"] = random.choice(
        [[-1, 1], [-1, 0, 1], [0, 1], [-7e4, 0, 7e4], list(range(size)), list(range(2**15)),
         [-(2**i) for i in range(size)][::-1], [1e37 * (i + 1) for i in range(size)],
         [1e-45 * i for i in range(size)]]
    )  # fmt: skip


def _other_dtype(random: Random, archive: Archive, name: str, entry: dict) -> None:
    entry["dtype"] = random.choice(["float32", "float16", "bfloat16", "float64", "uint8"])


def _other_layout(random: Random, archive: Archive, name: str, entry: dict) -> None:
    entry["layout"] = {"bits": "trits", "trits": "bits"}[entry["layout"]]
    rows, length = entry["shape"][0], math.prod(entry["shape"][1:])
    if random.random() < 0.6:
        width = -(-length // 5) if entry["layout"] == "trits" else -(-length // 4)
        codes = bytes([random.choice([0, 121, 242, 243, 255])]) * (rows * width)
        _replace(archive, f"{name}.codes", StoredTensor("U8", [rows, width], codes))


def _other_kind(random: Random, archive: Archive, name: str, entry: dict) -> None:
    entry["kind"] = random.choice(["linear", "conv1d", "conv2d", "conv3d"])
    if random.random() < 0.5:
        rank = {"linear": 2, "conv1d": 3, "conv2d": 4, "conv3d": 5}[entry["kind"]]
        length = math.prod(entry["shape"][1:])
        entry["shape"] = [entry["shape"][0], length, *[1] * (rank - 2)]


def _random_codes(random: Random, archive: Archive, name: str, entry: dict) -> None:
    tensor = archive.tensors.get(f"{name}.codes")
    if tensor is not None:
        tensor.content = random.choice(
            [
                random.randbytes(len(tensor.content)),
                b"\0" * len(tensor.content),
                b"\xff" * len(tensor.content),
            ]
        )


def _replace(archive: Archive, name: str, tensor: StoredTensor) -> None:
    if name in archive.tensors:
        archive.tensors[name] = tensor


_LAYER_FORGERIES = (
    _other_shape, _other_granularity, _other_codebook, _other_dtype, _other_layout, _other_kind,
    _random_codes,
)  # fmt: skip


def _other_bytes(random: Random, archive: Archive, name: str) -> None:
    tensor = archive.tensors[name]
    specials = [struct.pack("<f", x) for x in (float("nan"), float("inf"), -1.0, 0.0, 1e-45, 3e38)]
    content = bytearray(tensor.content)
    patch = random.choice([*specials, random.randbytes(4)])
    start = random.randrange(max(1, len(content) // 4)) * 4
    content[start : start + 4] = patch[: len(content) - start]
    tensor.content = bytes(content)


def _other_tensor_dtype(random: Random, archive: Archive, name: str) -> None:
    """The same shape in another dtype, with as many bytes as that takes."""
    tensor = archive.tensors[name]
    tensor.dtype = random.choice(list(SIZES))
    tensor.content = (tensor.content * 8)[: tensor.num_bytes].ljust(tensor.num_bytes, b"\1")
    if tensor.dtype == "BOOL":
        tensor.content = bytes(byte & 1 for byte in tensor.content)


def _other_tensor_shape(random: Random, archive: Archive, name: str) -> None:
    tensor = archive.tensors[name]
    shape = tensor.shape
    tensor.shape = random.choice(
        [[*shape, 1], [1, *shape], shape[::-1], [], [0], [n + 1 for n in shape], [2, *shape]]
    )
    tensor.content = (tensor.content * 3)[: tensor.num_bytes].ljust(tensor.num_bytes, b"\1")


def _drop_tensor(random: Random, archive: Archive, name: str) -> None:
    del archive.tensors[name]
    if random.random() < 0.7:
        archive.manifest["tensors"].pop(name, None)
    if not archive.tensors:
        archive.tensors["x"] = StoredTensor("F32", [1], b"\0" * 4)


def _add_tensor(random: Random, archive: Archive, name: str) -> None:
    parent = name.rpartition(".")[0]
    new = random.choice(
        ["more", "", f"{name}.more", f"{parent}.weight", f"{parent}.bias", f"{parent}.x"]
    )
    archive.tensors[new] = archive.tensors[name]
    if random.random() < 0.8:
        archive.manifest["tensors"][new] = "0" * 64


_TENSOR_FORGERIES = (
    _other_bytes, _other_tensor_dtype, _other_tensor_shape, _drop_tensor, _add_tensor,
)  # fmt: skip


def _tie(random: Random, archive: Archive) -> None:
    """Ties a tensor to another, and may drop what was stored under its name."""
    names = [*archive.tensors, "more", ""]
    one, kept = random.choice(names), random.choice(names)
    archive.manifest["tied"][one] = kept
    if random.random() < 0.7 and len(archive.tensors) > 1:
        archive.tensors.pop(one, None)
    if random.random() < 0.7:
        archive.manifest["tensors"].pop(one, None)


def _untie(random: Random, archive: Archive) -> None:
    """Stores what was tied, perhaps with other content."""
    tied = archive.manifest["tied"]
    for name in list(tied)[: random.randrange(1, 4)]:
        kept = archive.tensors.get(tied.pop(name))
        if kept is not None:
            other = bytes([byte ^ random.randrange(2) for byte in kept.content])
            archive.tensors[name] = StoredTensor(kept.dtype, kept.shape, other)
            if not name.endswith((".codes", ".scale")):
                archive.manifest["tensors"][name] = "0" * 64


def _fold(random: Random, archive: Archive) -> None:
    """Names of all kinds among the folded normalizations, with or without their tensors."""
    modules = {name.rpartition(".")[0] for name in archive.tensors}
    name = random.choice([*sorted(modules), "", "more", "2", *archive.manifest["layers"]])
    folded = archive.manifest["folded"]
    if folded and random.random() < 0.3:
        folded.pop()
        return
    folded.append(name)
    if random.random() < 0.7:
        for tensor in [t for t in archive.tensors if t.startswith(f"{name}.")]:
            if len(archive.tensors) > 1 and not tensor.endswith((".codes", ".scale")):
                del archive.tensors[tensor]
                archive.manifest["tensors"].pop(tensor, None)


def _rename(random: Random, archive: Archive) -> None:
    """Gives a layer or its tensors another name."""
    layers = archive.manifest["layers"]
    old = random.choice(list(layers))
    new = random.choice([*layers, "", "more", "1", "2", f"{old}.0", ".", "training", "_modules"])
    layers[new] = layers.pop(old)
    if random.random() < 0.8:
        for part in ("codes", "scale", "bias"):
            if f"{old}.{part}" in archive.tensors:
                archive.tensors[f"{new}.{part}"] = archive.tensors.pop(f"{old}.{part}")
            if archive.manifest["tensors"].pop(f"{old}.{part}", None):
                archive.manifest["tensors"][f"{new}.{part}"] = "0" * 64


def _drop_layer(random: Random, archive: Archive) -> None:
    layers = archive.manifest["layers"]
    name = random.choice(list(layers))
    if len(layers) > 1 or random.random() < 0.2:
        del layers[name]
    for part in ("codes", "scale"):
        if random.random() < 0.5:
            archive.tensors.pop(f"{name}.{part}", None)
        elif random.random() < 0.5:
            archive.manifest["tensors"][f"{name}.{part}"] = "0" * 64
    if not archive.tensors:
        archive.tensors["x"] = StoredTensor("F32", [1], b"\0" * 4)


def _list_twice(random: Random, archive: Archive) -> None:
    """A packed layer's tensor among the others as well, or no manifest under its key."""
    name = random.choice(list(archive.manifest["layers"]))
    archive.manifest["tensors"][f"{name}.{random.choice(['codes', 'scale', 'bias'])}"] = "0" * 64
    archive.metadata[random.choice(["other", KEY.upper()])] = "{}"


_PLACE_FORGERIES = (_tie, _untie, _fold, _rename, _drop_layer, _list_twice)
FORGERY: dict[str, Mutation] = {
    mutation.__name__: mutation
    for mutation in (forge_manifest, forge_layer, forge_tensors, forge_places, transplant)
}
