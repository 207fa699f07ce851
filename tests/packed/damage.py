"""Ways to damage a packed file whose digests nobody makes right again.

Each takes random numbers, the file, and another file, and returns a file.
"""

import copy
import json
import struct
from collections.abc import Callable
from random import Random
from typing import Any

from tests.packed.archive import SIZES, Archive, join, split

Mutation = Callable[[Random, bytes, bytes], bytes]
NASTY: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 3, 7, 255, 2**31, 2**40, 2**63, 2**64, 10**30, 0.5, -0.0, 1e38,
    1e300, "", "x", "bits", "trits", "layer", "channel", "linear", "conv2d", "float16", "float64",
    "0", "0.codes", "é\ud800", "a\nb", "." * 50, [], [1], [0, 0], [2, 2], [1, 0], [-1, 0, 1],
    [1, 1, 1, 1], [2**40, 2**40], {}, {"a": 1}, [[]], list(range(300)),
)  # fmt: skip
DTYPES = (*SIZES, "F8_E4M3", "F4", "U16", "X", "", "f32")


def nasty(random: Random) -> Any:
    """A value that hardly any field should have; a copy, for it may be changed in turn."""
    return copy.deepcopy(random.choice(NASTY))


def flip_bits(random: Random, content: bytes, other: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(random.choice([1, 1, 2, 8])):
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def set_bytes(random: Random, content: bytes, other: bytes) -> bytes:
    changed = bytearray(content)
    start = random.randrange(len(changed))
    run = changed[start : start + random.choice([1, 2, 4, 8, 64])]
    changed[start : start + len(run)] = bytes(
        [random.choice([0, 255, random.randrange(256)])]
    ) * len(run)
    return bytes(changed)


def truncate(random: Random, content: bytes, other: bytes) -> bytes:
    return content[: random.choice([0, 7, 8, 9, len(content) - 1, random.randrange(len(content))])]


def extend(random: Random, content: bytes, other: bytes) -> bytes:
    return content + random.choice([b"\0", b" ", b"{}", random.randbytes(8), other, content])


def insert_or_delete(random: Random, content: bytes, other: bytes) -> bytes:
    start = random.randrange(len(content))
    if random.random() < 0.5:
        return content[:start] + random.randbytes(random.choice([1, 2, 8])) + content[start:]
    return content[:start] + content[start + random.choice([1, 2, 8, 100]) :]


def splice(random: Random, content: bytes, other: bytes) -> bytes:
    """The head of one file and the tail of another, cut anywhere or where the header ends."""
    if random.random() < 0.5:
        return content[: random.randrange(len(content))] + other[random.randrange(len(other)) :]
    (header, data), (other_header, other_data) = split(content), split(other)
    if random.random() < 0.5:
        return join(header, other_data)
    return join(
        {**other_header, "__metadata__": header["__metadata__"]}, random.choice([data, other_data])
    )


def forge_header_length(random: Random, content: bytes, other: bytes) -> bytes:
    (length,) = struct.unpack("<Q", content[:8])
    near = length + random.choice([-8, -1, 1, 8])
    forged = random.choice([0, 1, near, len(content), 10**8, 10**8 + 1, 2**31, 2**63, 2**64 - 1])
    return struct.pack("<Q", forged) + content[8:]


def forge_header(random: Random, content: bytes, other: bytes) -> bytes:
    """Sizes, offsets, shapes, dtypes and names in the list of tensors."""
    header, data = split(content)
    for _ in range(random.choice([1, 1, 2])):
        names = [name for name in header if name != "__metadata__"]
        name = random.choice(names)
        tensor = header[name] if isinstance(header[name], dict) else {}
        _forge_entry(random, header, name, tensor, names)
    return join(header, data)


def _forge_entry(random: Random, header: dict, name: str, tensor: dict, names: list[str]) -> None:
    choice = random.randrange(8)
    if choice == 0:
        tensor["dtype"] = random.choice(DTYPES)
    elif choice == 1:
        tensor["shape"] = [*tensor.get("shape", []), random.choice([0, 1, 2, 2**32, 2**63])]
    elif choice == 2:
        tensor["shape"] = list(reversed(tensor.get("shape", [])))
    elif choice == 3:
        tensor["data_offsets"] = [
            random.choice([0, 1, 8, 2**40, 2**63, -1]),
            random.choice([0, 8, 2**63]),
        ]
    elif choice == 4:
        header[random.choice([*names, "more", "", "0.codes"])] = header.pop(name)
    elif choice == 5:
        header[name] = copy.copy(header[random.choice(names)])
    elif choice == 6:
        header[name] = nasty(random)
    else:
        tensor[random.choice(["dtype", "shape", "data_offsets", "more"])] = nasty(random)


def edit_manifest(random: Random, content: bytes, other: bytes) -> bytes:
    """A changed manifest with the digest of the right one."""
    archive = Archive.of(content)
    digest = archive.manifest.get("digest")
    set_any_field(random, archive)
    archive.manifest["digest"] = digest
    return archive.with_manifest(json.dumps(archive.manifest, separators=(",", ":")))


def trick_json(random: Random, content: bytes, other: bytes) -> bytes:
    """Deep nesting, keys twice, huge numbers and the like, in the manifest or the header."""
    deep = random.choice([10, 500, 990, 5000, 100_000])
    tricks = [
        "[" * deep, "[" * deep + "]" * deep, '{"a":' * deep + "1" + "}" * deep, "9" * deep,
        '"' + "x" * deep + '"', "1e999", "-Infinity", "NaN", "1E400", "-" + "9" * 400, "0" * 20,
        "1.0", "1e0", '"\\ud800"', '"\\u0000"', "\ufeff1",
    ]  # fmt: skip
    archive = Archive.of(content)
    text = json.dumps(archive.manifest, separators=(",", ":"))
    trick, key = (
        random.choice(tricks),
        random.choice(["version", "layers", "more", "digest", "about"]),
    )
    where = random.randrange(3)
    if where == 0:
        return archive.with_manifest("{" + f'"{key}":{trick},' + text[1:])
    if where == 1:
        return archive.with_manifest(text[:-1] + f',"{key}":{trick}' + "}")
    header, data = split(content)
    text = json.dumps(header, separators=(",", ":"))
    return join("{" + f'"{random.choice(list(header))}":{trick},' + text[1:], data)


def set_any_field(random: Random, archive: Archive) -> None:
    """Sets any place of the manifest to anything."""
    place: Any = archive.manifest
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys or random.random() < 0.05:
            break
        key = random.choice(keys)
        if isinstance(place[key], (dict, list)) and place[key] and random.random() < 0.8:
            place = place[key]
            continue
        _set(random, place, key)
        return
    if isinstance(place, dict):
        place[random.choice(["more", "", "0", "digest"])] = nasty(random)
    else:
        place.append(nasty(random))


def _set(random: Random, place: Any, key: Any) -> None:
    if random.random() < 0.15:
        del place[key]
    elif isinstance(place[key], int) and random.random() < 0.5:
        place[key] += random.choice([-2, -1, 1, 2, 2**32])
    else:
        place[key] = nasty(random)


DAMAGE: dict[str, Mutation] = {
    mutation.__name__: mutation
    for mutation in (
        flip_bits, set_bytes, truncate, extend, insert_or_delete, splice, forge_header_length,
        forge_header, edit_manifest, trick_json,
    )
}  # fmt: skip
