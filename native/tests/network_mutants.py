"""Ways to forge the program of a file whose digests are right, as somebody who means harm would.

Each takes random numbers, the file and another file, and returns a file. Those of ``tests.packed``
damage and forge the rest of a file: its bytes, its header, its manifest and its tensors.
"""

import copy
from random import Random
from typing import Any

from tests.packed.archive import Archive
from tests.packed.damage import DAMAGE, Mutation, nasty
from tests.packed.forgery import FORGERY

LARGE = (2**23 - 1, 2**23, 2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1, 2**63, 2**64, 10**30)
NAMES = (
    "relu", "relu6", "silu", "gelu", "gelu_tanh", "hard_swish", "hard_sigmoid", "sigmoid", "tanh",
)  # fmt: skip
ACTIVATIONS: tuple[Any, ...] = (
    *[{"kind": name} for name in NAMES],
    {"kind": "clamp", "low": None, "high": None},
    {"kind": "clamp", "low": -1, "high": 2.5},
    {"kind": "leaky_relu", "slope": -3e38},
)
WRONG_ACTIVATIONS: tuple[Any, ...] = (
    {"kind": "relu", "slope": 1}, {"kind": "clamp", "low": 2, "high": 1}, {"kind": "softmax"}, {},
    {"kind": "clamp", "low": 1e39}, {"kind": "leaky_relu"}, None, "relu", [],
)  # fmt: skip
SIZED = {  # keys of operations that hold numbers, and how many
    "stride": 2, "dilation": 2, "padding": 4, "kernel": 2, "size": 2, "factor": 2, "groups": 0,
    "axis": 0, "start": 0, "stop": 0, "step": 0, "value": 0,
}  # fmt: skip


def forge_any_place(random: Random, content: bytes, other: bytes) -> bytes:
    """Some place of the program holds anything."""
    archive = Archive.of(content)
    for _ in range(random.choice([1, 1, 2, 3])):
        _set_any_place(random, archive.manifest["program"])
    return archive.signed()


def forge_numbers(random: Random, content: bytes, other: bytes) -> bytes:
    """Sizes, strides, paddings and the like that are huge, negative, zero or of another count."""
    archive = Archive.of(content)
    for _ in range(random.choice([1, 1, 2, 4])):
        operation = random.choice(_operations(archive))
        key = random.choice([key for key in SIZED if key in operation] or list(SIZED))
        value = operation.get(key)
        if isinstance(value, list) and value and random.random() < 0.85:
            value[random.randrange(len(value))] = _wrong_number(random)
        elif isinstance(value, list):
            operation[key] = random.choice([value[:-1], [*value, 1], [], value[::-1]])
        else:
            operation[key] = _wrong_number(random)
    return archive.signed()


def forge_legal_numbers(random: Random, content: bytes, other: bytes) -> bytes:
    """Small numbers that an operation may well have, so that many of these networks run."""
    archive = Archive.of(content)
    for _ in range(random.choice([1, 2, 3, 5])):
        operation = random.choice(_operations(archive))
        keys = [key for key in SIZED if key in operation]
        if keys:
            key = random.choice(keys)
            most = {"padding": 4, "size": 12, "factor": 3, "stop": 30}.get(key, 3)
            numbers = (
                [random.randint(0, most) for _ in range(len(operation[key]) or 1)]
                if (isinstance(operation[key], list))
                else random.randint(0, most)
            )
            operation[key] = numbers
        for key in ("kind", "ceil", "count_padding", "log", "align_corners"):
            if key in operation and random.random() < 0.3:
                operation[key] = {
                    "max": "average", "average": "max", "nearest": "bilinear",
                    "bilinear": "nearest", True: False, False: True,
                }.get(operation[key], True)  # fmt: skip
        if "activation" in operation and random.random() < 0.5:
            operation["activation"] = random.choice(ACTIVATIONS)
    return archive.signed()


def forge_wiring(random: Random, content: bytes, other: bytes) -> bytes:
    """Operations that read other values, and outputs that are others."""
    archive = Archive.of(content)
    program = archive.manifest["program"]
    for _ in range(random.choice([1, 1, 2, 3])):
        operations = _operations(archive)
        number = random.randrange(len(operations))
        inputs = operations[number]["in"]
        earlier = random.randrange(len(program["inputs"]) + number)
        wrong = random.choice(
            [-1, number + len(program["inputs"]), 2**31, 2**32, 10**30, 0.0, None]
        )
        choice = random.randrange(6)
        if choice <= 1:
            operations[number]["in"] = [*inputs[:-1], earlier]
        elif choice == 2:
            operations[number]["in"] = [*inputs[:-1], wrong]
        elif choice == 3:
            operations[number]["in"] = random.choice([[], [*inputs, earlier], inputs * 2])
        elif choice == 4:
            values = len(program["inputs"]) + len(operations)
            program["outputs"] = random.choice(
                [[], [0], [values], [values - 1] * 3, [values // 2, values - 1], [earlier, wrong]]
            )
            program["layout"] = random.choice(["single", "tuple", "tuple", "list"])
        else:
            program["outputs"] = [random.randrange(len(program["inputs"]), values_of(program))]
    return archive.signed()


def forge_order(random: Random, content: bytes, other: bytes) -> bytes:
    """Operations that are gone, doubled, moved, of another kind or from another file."""
    archive, donor = Archive.of(content), Archive.of(other)
    program, operations = archive.manifest["program"], _operations(archive)
    number = random.randrange(len(operations))
    choice = random.randrange(6)
    if choice == 0:
        del operations[number]
    elif choice == 1:
        operations.insert(number, copy.deepcopy(random.choice(operations)))
    elif choice == 2:
        operations[number], operations[0] = operations[0], operations[number]
    elif choice == 3:
        operations[number]["op"] = random.choice([*[o["op"] for o in operations], "relu", "", 3])
    elif choice == 4:
        operations[number] = copy.deepcopy(random.choice(_operations(donor)))
    else:
        archive.manifest["program"] = donor.manifest["program"]
    if random.random() < 0.7:
        _fit_ranges(random, program)
    return archive.signed()


def forge_weights(random: Random, content: bytes, other: bytes) -> bytes:
    """Operations with weights, biases, factors, scales and shifts of others, or of nobody."""
    archive = Archive.of(content)
    tensors, layers = list(archive.tensors), list(archive.manifest["layers"])
    for _ in range(random.choice([1, 1, 2])):
        named = [
            (operation, key)
            for operation in _operations(archive)
            for key in ("weight", "factor", "bias", "scale", "shift")
            if key in operation
        ]
        operation, key = random.choice(named or [(_operations(archive)[0], "weight")])
        operation[key] = random.choice([*tensors, *layers, *layers, "", "nobody", nasty(random)])
    return archive.signed()


def forge_inputs(random: Random, content: bytes, other: bytes) -> bytes:
    """Inputs of other sizes or kinds; small ones run, where the channels still fit."""
    archive = Archive.of(content)
    inputs = archive.manifest["program"]["inputs"]
    shape = random.choice(inputs)
    if random.random() < 0.6 and len(shape) == 3:
        shape[1:] = [random.randint(1, 20), random.randint(1, 20)]
    elif random.random() < 0.5:
        shape[random.randrange(len(shape))] = _wrong_number(random)
    else:
        inputs[random.randrange(len(inputs))] = random.choice(
            [[], [3], [3, 4], [3, 2**22, 2**22], [1, 1, 1], [3, 1, 1, 1], nasty(random)]
        )
    if random.random() < 0.1:
        inputs.append([3, 4, 4])
        _fit_ranges(random, archive.manifest["program"])
    return archive.signed()


def forge_ranges(random: Random, content: bytes, other: bytes) -> bytes:
    """Ranges of all kinds, the mode, and activations that are right and wrong."""
    archive = Archive.of(content)
    program = archive.manifest["program"]
    program["mode"] = random.choice(["fast", "exact"])
    ranges = program["ranges"]
    for _ in range(random.randrange(1, 6)):
        ranges[random.randrange(len(ranges))] = random.choice(
            [None, [0, 0], [-1, 1], [0.0, 6], [-1e-45, 1e-45], [-3.4e38, 3.4e38], [1e-300, 1e-299],
             [5, 6], [-6, -5]]
        )  # fmt: skip
    for operation in _operations(archive):
        if "activation" in operation and random.random() < 0.5:
            operation["activation"] = random.choice(ACTIVATIONS)
    if random.random() < 0.3:
        ranges[random.randrange(len(ranges))] = random.choice(
            [[1, 0], [1e39, 1e40], [0], [0, 1, 2], [None, 1], "0", nasty(random)]
        )
    if random.random() < 0.1:
        ranges[random.randrange(len(ranges)) :] = []
    if random.random() < 0.3:
        operation = random.choice(_operations(archive))
        operation["activation"] = random.choice(WRONG_ACTIVATIONS)
    return archive.signed()


def forge_growth(random: Random, content: bytes, other: bytes) -> bytes:
    """A program that doubles a value again and again, in channels or in pixels."""
    archive = Archive.of(content)
    program = archive.manifest["program"]
    value, times = random.randrange(values_of(program)), random.choice([2, 8, 20, 40, 70])
    kinds = (
        {"op": "concat", "twice": True},
        {"op": "upsample", "kind": "nearest", "factor": [random.choice([2, 1000, 1e6]), 2]},
        {"op": "upsample", "kind": "bilinear", "size": [2 ** random.randint(0, 23), 3]},
        {"op": "adaptive_pool", "kind": "max", "size": [random.choice([1, 3, 2**22]), 2**20]},
        {"op": "pad", "padding": [random.choice([1, 2**22])] * 6},
        {"op": "pool", "kind": "average", "kernel": [2**22, 2], "stride": [1, 1],
         "padding": [2**21, 2**21, 1, 1], "count_padding": True},
    )  # fmt: skip
    for _ in range(times):
        operation = dict(random.choice(kinds[:1] if times > 8 and random.random() < 0.5 else kinds))
        operation["in"] = [value, value] if operation.pop("twice", False) else [value]
        operation["name"] = "grow"
        program["operations"].append(operation)
        value = values_of(program) - 1
    program["outputs"], program["layout"] = [value], "single"
    _fit_ranges(random, program)
    return archive.signed()


def values_of(program: dict[str, Any]) -> int:
    """How many values a program has."""
    return len(program["inputs"]) + len(program["operations"])


def _operations(archive: Archive) -> list[dict[str, Any]]:
    operations: list[dict[str, Any]] = archive.manifest["program"]["operations"]
    return operations


def _fit_ranges(random: Random, program: dict[str, Any]) -> None:
    ranges = (program["ranges"] + [[-2, 2]] * values_of(program))[: values_of(program)]
    program["ranges"] = [random.choice([one, None]) for one in ranges]


def _wrong_number(random: Random) -> Any:
    number = random.choice([*LARGE, *range(-2, 10), 0.5, -0.0, 1e300, nasty(random)])
    return -number if type(number) in (int, float) and random.random() < 0.2 else number


def _set_any_place(random: Random, place: Any) -> None:
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return
        key = random.choice(keys)
        if not isinstance(place[key], (dict, list)) or random.random() < 0.15:
            break
        place = place[key]
    choice = random.random()
    if choice < 0.2:
        del place[key]
    elif choice < 0.3 and isinstance(place, dict):
        place[random.choice(["more", "", "activation", "in", "size"])] = place[key]
    elif choice < 0.3:
        place.append(copy.deepcopy(place[key]))
    elif choice < 0.6 and type(place[key]) is int:
        place[key] += random.choice([-2, -1, 1, 2, 2**32])
    else:
        place[key] = _wrong_number(random)


LIES: dict[str, Mutation] = {
    mutation.__name__: mutation
    for mutation in (
        forge_any_place, forge_numbers, forge_legal_numbers, forge_wiring, forge_order,
        forge_weights, forge_inputs, forge_ranges, forge_growth,
    )
}  # fmt: skip
KINDS: dict[str, Mutation] = {**DAMAGE, **FORGERY, **LIES}


def mutant(kind: str, seed: int, files: dict[str, bytes]) -> tuple[str, bytes]:
    """The name of a file, and what was made from it; kind and seed determine both."""
    random = Random(f"{kind} {seed}")
    name, other = random.choice(list(files)), random.choice(list(files))
    content = files[name]
    while content == files[name]:  # some mutations set what is there already
        content = KINDS[kind](random, files[name], files[other])
    return name, content
