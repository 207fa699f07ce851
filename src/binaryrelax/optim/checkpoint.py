"""The layout of an optimizer checkpoint: torch's own, flat, plain data.

Each parameter's entry holds "y" and the base optimizer's values as "base.<key>"; each group holds,
beside base's settings, the method, schedule, quantizers, names and number of steps under
"relax_<key>".
"""

from __future__ import annotations

from typing import Any

from torch import Size, Tensor

from binaryrelax.quantizers.validation import all_finite

StateDict = dict[str, Any]
_MUST_AGREE = ("relax_method", "relax_schedule", "relax_quantizers", "relax_names")


def join_state(own: StateDict, base: StateDict, description: list[StateDict]) -> StateDict:
    """One state dict from ours ("y"), base's and the description of each group."""
    state = {index: dict(values) for index, values in own["state"].items()}
    for index, values in base["state"].items():
        prefixed = {f"base.{key}": value for key, value in values.items()}
        state.setdefault(index, {}).update(prefixed)
    groups = [
        {**group, **described}
        for group, described in zip(own["param_groups"], description, strict=True)
    ]
    return {**own, "state": state, "param_groups": groups}


def split_state(
    joined: StateDict, description: list[StateDict], shapes: dict[int, Size]
) -> tuple[StateDict, StateDict]:
    """What ``join_state`` joined, after checking that it fits this optimizer.

    Args:
        joined: the state dict to load.
        description: the groups of the optimizer that loads it.
        shapes: the shape of y that it expects at each index.

    Raises:
        ValueError: it does not fit; nothing has been changed.
    """
    groups = joined["param_groups"]
    if len(groups) != len(description):
        raise ValueError(f"saved with {len(groups)} param groups, this has {len(description)}")
    for saved, expected in zip(groups, description, strict=True):
        _refuse_other_group(saved, expected)
    for index, shape in shapes.items():
        y = joined["state"].get(index, {}).get("y")
        if not isinstance(y, Tensor) or y.shape != shape:
            found = tuple(y.shape) if isinstance(y, Tensor) else "missing"
            raise ValueError(f"float weights {index}: saved {found}, expected {tuple(shape)}")
        if not all_finite(y):
            raise ValueError(f"float weights {index}: the checkpoint holds NaN or infinity")
    plain = [_without(group, "relax_") for group in groups]
    own = {i: {"y": joined["state"][i]["y"]} for i in shapes}
    base = {i: values for i, v in joined["state"].items() if (values := _unprefixed(v))}
    return {"state": own, "param_groups": plain}, {"state": base, "param_groups": plain}


def _refuse_other_group(saved: StateDict, expected: StateDict) -> None:
    if "relax_steps" not in saved:
        raise ValueError(
            "this is not a checkpoint of BinaryRelax (it has no 'relax_steps'); to go on from a "
            "plain optimizer's state, load it into base before wrapping it"
        )
    for key in _MUST_AGREE:
        if saved.get(key) != expected[key]:
            what = key.removeprefix("relax_")
            raise ValueError(f"saved with {what} {saved.get(key)}, this has {expected[key]}")


def _without(group: StateDict, prefix: str) -> StateDict:
    return {key: value for key, value in group.items() if not key.startswith(prefix)}


def _unprefixed(values: StateDict) -> StateDict:
    return {
        key.removeprefix("base."): value for key, value in values.items() if key.startswith("base.")
    }
