"""The layout of an optimizer checkpoint: torch's own, flat, plain data.

Each parameter's entry holds "y" and the base optimizer's values as "base.<key>"; each group holds,
beside base's settings, the method, schedule, quantizers, names, number of steps and which of
base's values there are under "relax_<key>".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from binaryrelax.optim.device_flags import is_capturing
from binaryrelax.quantizers import Quantizer
from binaryrelax.quantizers.sharded_weights import is_dtensor, local_part, shards_of
from binaryrelax.quantizers.validation import all_finite

StateDict = dict[str, Any]
_MUST_AGREE = ("relax_method", "relax_schedule", "relax_quantizers", "relax_names")


def described_groups(
    groups: list[StateDict],
    quantizers: Mapping[Tensor, Quantizer],
    names: Mapping[Tensor, str],
    shared: StateDict,
) -> list[StateDict]:
    """What a checkpoint must agree on, for each group; ``shared`` is the same for all of them."""
    return [
        {
            **shared,
            "relax_quantizers": [
                repr(quantizers[p]) if p in quantizers else None for p in group["params"]
            ],
            "relax_names": [names.get(p) for p in group["params"]],
        }
        for group in groups
    ]


def join_state(
    own: StateDict, base: StateDict, float_weights: dict[int, Tensor], description: list[StateDict]
) -> StateDict:
    """One state dict from y, base's values and the description of each group."""
    keys = [key for group in own["param_groups"] for key in group["params"]]
    state: dict[Any, StateDict] = {key: {} for key in keys}  # torch wants to see every parameter
    for index, y in float_weights.items():
        state[keys[index]]["y"] = y
    for index, values in base["state"].items():
        prefixed = {f"base.{key}": value for key, value in values.items()}
        state.setdefault(index, {}).update(prefixed)
    groups = [
        {**group, **described, "relax_base_keys": _base_keys(group, state)}
        for group, described in zip(own["param_groups"], description, strict=True)
    ]
    return {**own, "state": state, "param_groups": groups}


def split_state(
    joined: StateDict, description: list[StateDict], float_weights: dict[int, Tensor]
) -> tuple[StateDict, StateDict]:
    """What ``join_state`` joined, after checking that it fits this optimizer.

    Args:
        joined: the state dict to load; ``torch.distributed.checkpoint`` names the parameters in
            it where ``join_state`` had counted them.
        description: the groups of the optimizer that loads it.
        float_weights: the y that it holds at each index.

    Raises:
        ValueError: it does not fit; nothing has been changed.
    """
    groups = joined["param_groups"]
    if len(groups) != len(description):
        raise ValueError(f"saved with {len(groups)} param groups, this has {len(description)}")
    for saved, expected in zip(groups, description, strict=True):
        _refuse_other_group(saved, expected)
        _refuse_lost_state(saved, joined["state"])
    keys = [key for group in groups for key in group["params"]]
    own = {}
    for index, expected_y in float_weights.items():
        y = joined["state"].get(keys[index], {}).get("y")
        _refuse_other_y(y, expected_y, keys[index])
        own[keys[index]] = {"y": y}
    plain = [_without(group, "relax_") for group in groups]
    base = {i: values for i, v in joined["state"].items() if (values := _unprefixed(v))}
    return {"state": own, "param_groups": plain}, {"state": base, "param_groups": plain}


def makes_state(optimizer: Optimizer) -> bool:
    """Whether this is the step by which ``torch.distributed.checkpoint`` gets at lazy state.

    To load momentum and the like it must see them in the state dict, where they are not before the
    first step. So it makes one with every gradient and every learning rate set to zero, which must
    not advance λ.
    """
    rates = (group["lr"] for group in optimizer.param_groups if "lr" in group)
    if optimizer.state or is_capturing() or not all(map(_is_zero_on_host, rates)):
        return False
    moving = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
    if any(p.grad is None for p in moving):
        return False
    return not any([int(shards_of(p).total(local_part(p.grad).count_nonzero())) for p in moving])


def _is_zero_on_host(rate: float | Tensor) -> bool:
    return (not isinstance(rate, Tensor) or rate.device.type == "cpu") and float(rate) == 0


def _refuse_other_y(y: object, expected: Tensor, key: object) -> None:
    if not isinstance(y, Tensor) or y.shape != expected.shape:
        found = tuple(y.shape) if isinstance(y, Tensor) else "missing"
        by_name = isinstance(key, str)  # as torch.distributed.checkpoint hands them over
        hint = "; it skips frozen weights: unfreeze them to load" if by_name and y is None else ""
        shape = tuple(expected.shape)
        raise ValueError(f"float weights {key}: saved {found}, expected {shape}{hint}")
    if is_dtensor(y) != is_dtensor(expected):
        raise ValueError(
            f"float weights {key}: one of checkpoint and optimizer is sharded, the other is not; "
            "load with set_optimizer_state_dict of torch.distributed.checkpoint.state_dict"
        )
    if not all_finite(y):
        raise ValueError(f"float weights {key}: the checkpoint holds NaN or infinity")


def _refuse_other_group(saved: StateDict, expected: StateDict) -> None:
    if "relax_steps" not in saved:
        raise ValueError(
            "this is not a checkpoint of BinaryRelax (it has no 'relax_steps'); to go on from a "
            "plain optimizer's state, load it into base before wrapping it; "
            "flatten_optimizer_state_dict=True of torch.distributed.checkpoint is not supported"
        )
    for key in _MUST_AGREE:
        if saved.get(key) != expected[key]:
            what = key.removeprefix("relax_")
            hint = "; resume with as many steps as the saved run had" if what == "schedule" else ""
            raise ValueError(f"saved with {what} {saved.get(key)}, this has {expected[key]}{hint}")


def _base_keys(group: StateDict, state: dict[Any, StateDict]) -> list[str]:
    """What base keeps for the parameters of a group, such as "base.exp_avg"."""
    keys = {key for parameter in group["params"] for key in state.get(parameter, {})}
    return sorted(key for key in keys if key.startswith("base."))


def _refuse_lost_state(group: StateDict, state: dict[Any, StateDict]) -> None:
    lost = set(group.get("relax_base_keys", ())) - set(_base_keys(group, state))
    if lost:  # torch.distributed.checkpoint loads only what the loading optimizer already has
        raise ValueError(
            f"saved with {sorted(lost)}, which were not loaded: clear the gradients before "
            "get_optimizer_state_dict, which else cannot know of them"
        )


def _without(group: StateDict, prefix: str) -> StateDict:
    return {key: value for key, value in group.items() if not key.startswith(prefix)}


def _unprefixed(values: StateDict) -> StateDict:
    return {
        key.removeprefix("base."): value for key, value in values.items() if key.startswith("base.")
    }
