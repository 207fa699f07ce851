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


def forge_longer(random: Random, content: bytes, other: bytes) -> bytes:
    """A program with more operations at its end or among the others, most of which fit anywhere."""
    archive = Archive.of(content)
    program = archive.manifest["program"]
    for _ in range(random.choice([1, 2, 4, 8])):
        last = values_of(program) - 1
        value = random.choice([last, last, random.randint(0, last)])
        operation = _fitting(random, value, random.randint(0, last), archive)
        if random.random() < 0.4 and operation["op"] not in _WITHOUT_ACTIVATION:
            operation["activation"] = random.choice(ACTIVATIONS)
        program["operations"].append({"name": "more", **operation})
    last = values_of(program) - 1
    if random.random() < 0.5:
        program["outputs"], program["layout"] = [last], "single"
    else:
        made = range(len(program["inputs"]), last + 1)
        program["outputs"] = [last, *random.sample(made, random.randint(0, 2))]
        program["layout"] = "tuple"
    program["mode"] = random.choice(["fast", "exact"])
    _fit_ranges(random, program)
    return archive.signed()


_WITHOUT_ACTIVATION = ("pool", "pad", "slice", "concat", "upsample", "softmax", "activate")


def _fitting(random: Random, value: int, second: int, archive: Archive) -> dict[str, Any]:
    """An operation over a value that is a map of a few pixels, or a vector."""
    few = [random.randint(0, 2) for _ in range(6)]
    kernel = [random.randint(1, 3) for _ in range(2)]
    if random.random() < 0.15:
        return _with_layer(random, value, archive)
    return random.choice(
        [
            {"op": "activate", "in": [value], "activation": random.choice(ACTIVATIONS)},
            {"op": "add", "in": [value, second]},
            {"op": "add", "in": [value, value]},
            {"op": "multiply", "in": [value, second]},
            {"op": "concat", "in": [value, second]},
            {"op": "concat", "in": [value] * random.randint(1, 4)},
            {"op": "slice", "in": [value], "axis": random.randint(1, 3), "start": few[0],
             "step": 1 + few[1]},
            {"op": "pad", "in": [value], "padding": few, "value": random.choice([0, 0, -1.5])},
            {"op": "pad", "in": [value], "padding": [0, 0, 0, 0, *few[:2]]},
            {"op": "softmax", "in": [value], "log": random.random() < 0.5},
            {"op": "pool", "in": [value], "kind": random.choice(["max", "average"]),
             "kernel": kernel, "stride": [1 + few[0], 1 + few[1]],
             "padding": [min(side, k - 1) for k in kernel for side in few[:2]],
             "ceil": random.random() < 0.5, "count_padding": random.random() < 0.5},
            {"op": "adaptive_pool", "in": [value], "kind": random.choice(["max", "average"]),
             "size": [random.randint(1, 4) for _ in range(2)]},
            {"op": "upsample", "in": [value], "kind": "bilinear", "factor": [1.5, 2],
             "align_corners": random.random() < 0.5},
            {"op": "flatten", "in": [value]},
        ]
    )  # fmt: skip


def _with_layer(random: Random, value: int, archive: Archive) -> dict[str, Any]:
    """One that uses a layer of the file once more."""
    name = random.choice(list(archive.manifest["layers"]))
    if len(archive.manifest["layers"][name]["shape"]) == 2:
        return {"op": "linear", "in": [value], "weight": name}
    return {
        "op": "conv", "in": [value], "weight": name,
        "stride": [random.randint(1, 3) for _ in range(2)],
        "dilation": [random.randint(1, 3) for _ in range(2)],
        "padding": [random.randint(0, 5) for _ in range(4)], "groups": random.choice([1, 1, 2, 12]),
    }  # fmt: skip


def forge_reach(random: Random, content: bytes, other: bytes) -> bytes:
    """Convolutions with wide padding and dilation that fit, so that they ask for much memory."""
    archive = Archive.of(content)
    program = archive.manifest["program"]
    shape = random.choice([shape for shape in program["inputs"] if len(shape) == 3] or [[1, 1, 1]])
    shape[1:] = [random.randint(1, 9), random.randint(1, 9)]
    for operation in _operations(archive):
        if operation["op"] == "conv" and random.random() < 0.7:
            sides = [2 ** random.randint(0, 21), random.randint(0, 3)]
            random.shuffle(sides)
            operation["padding"] = [side for side in sides for _ in range(2)]
            operation["dilation"] = [random.choice([1, 1 + side // 2]) for side in sides]
            operation["stride"] = [random.choice([1, 1 + 2 * side]) for side in sides]
    program["mode"] = random.choice(["fast", "exact"])
    return archive.signed()


def forge_sharing(random: Random, content: bytes, other: bytes) -> bytes:
    """The same operation over and over, or the same output: a small file for much work."""
    archive = Archive.of(content)
    program = archive.manifest["program"]
    operations, times = _operations(archive), random.choice([10, 100, 1000, 9000])
    layered = [number for number, operation in enumerate(operations) if "weight" in operation]
    number = random.choice(layered)
    if random.random() < 0.5:
        operations += [copy.copy(operations[number]) for _ in range(times)]
        program["outputs"] = [values_of(program) - 1]
    else:
        program["outputs"] = [len(program["inputs"]) + number] * times
    program["layout"] = "tuple"
    program["ranges"] = [None] * values_of(program)
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
        forge_weights, forge_inputs, forge_ranges, forge_growth, forge_longer, forge_reach,
        forge_sharing,
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
