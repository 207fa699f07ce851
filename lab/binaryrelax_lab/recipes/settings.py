"""Settings of a recipe from text such as ``key=value``; nothing is ever evaluated."""

import ast
import math
import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from binaryrelax import Quantizer
from binaryrelax.quantizers import public_granularities, public_quantizers
from binaryrelax_lab.recipes.learning_rate import Cosine, LearningRateSchedule, Steps
from binaryrelax_lab.recipes.name import RecipeName

CLASSES: dict[str, Any] = {**public_quantizers(), **public_granularities()}
LONGEST = 200  # characters of a value, which becomes a part of a folder's name
RULES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "epochs": ("at least 1", lambda value: value >= 1),
    "batch_size": ("at least 1", lambda value: value >= 1),
    "lr": ("above 0", lambda value: 0 < value < math.inf),
    "context": ("at least 1", lambda value: value >= 1),
    "vocabulary": ("from 256 to 65536", lambda value: 256 <= value <= 65_536),
    "steps_per_epoch": ("at least 1", lambda value: value >= 1),
    "momentum": ("from 0 to below 1", lambda value: 0 <= value < 1),
    "second_momentum": ("from 0 to below 1", lambda value: 0 <= value < 1),
    "clip": ("above 0", lambda value: value > 0),
    "weight_decay": ("at least 0", lambda value: 0 <= value < math.inf),
    "initial_strength": ("at least 0, or inf", lambda value: value >= 0),
    "growth": ("at least 1", lambda value: 1 <= value < math.inf),
    "growth_every_epochs": ("above 0", lambda value: 0 < value < math.inf),
    "phase_two_epoch": ("at least 0", lambda value: value >= 0),
    "crop_padding": ("at least 0", lambda value: value >= 0),
    "held_out": ("at least 0", lambda value: value >= 0),
}


def split_settings(given: Iterable[str]) -> dict[str, str]:
    """Key and value of each setting that is written as key=value."""
    settings: dict[str, str] = {}
    for text in given:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals:
            raise ValueError(f"{key}: write it as key=value, for example lr=0.05")
        if key in settings:
            raise ValueError(f"{key}={value}: {key} is set twice; give it once")
        settings[key] = value
    return settings


def parsed_settings(settings: Mapping[str, str], kinds: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the settings; `kinds` holds the type of each that may be set."""
    values = {}
    for key, text in settings.items():
        if key not in kinds:
            raise ValueError(_unknown_key(key, kinds))
        try:
            values[key] = _parsed(key, text.strip(), kinds[key])
        except ValueError as error:
            raise ValueError(f"{key}={text}: {error}") from error
    return values


def _unknown_key(key: str, kinds: Mapping[str, Any]) -> str:
    close = get_close_matches(key, kinds, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    return f"{key}: it cannot be set; {hint}What can: {', '.join(kinds)}"


def _parsed(key: str, text: str, kind: Any) -> Any:
    if len(text) > LONGEST:
        raise ValueError(f"{key} must not have more than {LONGEST} characters")
    value = PARSERS[kind](key, text)
    rule, holds = RULES.get(key, ("", lambda _: True))
    if not holds(value):
        raise ValueError(f"{key} must be {rule}")
    return value


def _whole_number(key: str, text: str) -> int:
    if not re.fullmatch(r"[+-]?\d+", text):
        raise ValueError(f"{key} must be a whole number, {RULES[key][0]}")
    return int(text)


def _number(key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{key} must be a number, {RULES[key][0]}") from None


def _truth(key: str, text: str) -> bool:
    truths = {"true": True, "false": False}
    if text.lower() not in truths:
        raise ValueError(f"{key} must be true or false")
    return truths[text.lower()]


def _name(key: str, text: str) -> str:
    if not re.fullmatch(r"[\w.*?\[\]!-]+", text):
        raise ValueError(f"{key} must be a name, without the changes that @ and + would tell of")
    return text


def _name_or_none(key: str, text: str) -> str | None:
    """A name; ``none`` means nothing, as ``starts_from=none``: from random weights."""
    return None if text == "none" else _name(key, text)


def _names(key: str, text: str) -> tuple[str, ...]:
    """Names separated by commas; empty text means none."""
    return tuple(_name(key, part.strip()) for part in text.split(",")) if text else ()


def _learning_rate_schedule(key: str, text: str) -> LearningRateSchedule:
    if text == "cosine":
        return Cosine()
    if re.fullmatch(r"steps:\d+(,\d+)*", text):
        milestones = tuple(int(part) for part in text.removeprefix("steps:").split(","))
        if list(milestones) == sorted(set(milestones)):
            return Steps(milestones=milestones)
    raise ValueError(f"{key} must be cosine, or steps: with increasing epochs (steps:120,220)")


def _quantizer(key: str, text: str) -> Quantizer:
    """The object that a Python expression would make, out of our own classes and literals only."""
    try:
        if not re.fullmatch(r"[\w\s.,()=+-]*", text):
            raise ValueError("it holds a character that none of them needs")
        value = _built(ast.parse(text, mode="eval").body)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"{_quantizer_rule(key)}; here: {error}") from error
    if not isinstance(value, Quantizer):
        raise ValueError(_quantizer_rule(key))
    return value


def _quantizer_rule(key: str) -> str:
    return (
        f"{key} must be written like Ternary() or Uniform(bits=3, granularity=PerChannel()); there "
        f"are {', '.join(public_quantizers())}, and the granularities "
        f"{', '.join(public_granularities())}"
    )


def _built(node: ast.expr) -> Any:
    if isinstance(node, ast.Name):
        raise ValueError(f"{node.id} lacks its parentheses")
    if not isinstance(node, ast.Call):
        return ast.literal_eval(node)
    name = node.func.id if isinstance(node.func, ast.Name) else None
    if name not in CLASSES or any(part.arg is None for part in node.keywords):
        raise ValueError(f"{ast.unparse(node)} is none of them")
    named = {str(part.arg): _built(part.value) for part in node.keywords}
    return CLASSES[name](*[_built(part) for part in node.args], **named)


PARSERS: dict[Any, Callable[[str, str], Any]] = {
    int: _whole_number,
    float: _number,
    float | None: _number,
    bool: _truth,
    str: _name,
    str | None: _name_or_none,
    RecipeName | None: _name_or_none,
    tuple[str, ...]: _names,
    Quantizer | None: _quantizer,
    LearningRateSchedule: _learning_rate_schedule,
}
