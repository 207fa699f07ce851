"""Facts of a result as plain data, and plain data checked on its way back."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

Json = dict[str, Any]


def content_of(record: Any, only_if_set: Sequence[str] = ()) -> Json:
    """Its fields; some only where they are not None."""
    values = {part.name: getattr(record, part.name) for part in fields(record)}
    return {k: v for k, v in values.items() if k not in only_if_set or v is not None}


def filled(kind: Callable[..., Any], content: Json) -> Any:
    """A record with what a file tells; None for the rest."""
    return kind(**{part.name: content.get(part.name) for part in fields(kind)})  # type: ignore[arg-type]


def wrong_kind(content: Json, kinds: dict[str, type], needed: bool = True) -> str | None:
    """What is missing, or is of another kind than it should be; None if all is well."""
    for key, kind in kinds.items():
        if key not in content and needed:
            return f"{key} is missing"
        if key in content and not isinstance(content[key], kind):
            return f"{key} should be {kind.__name__}"
    return None


def number_or_none(value: Any) -> float | None:
    """What nothing is computed from may be missing, or rubbish."""
    return value if is_number(value) else None


def number_to_json(value: float | None) -> float | str | None:
    """JSON has no number for infinity."""
    return "inf" if value is not None and math.isinf(value) else value


def require(holds: bool, problem: str) -> None:
    """A `ValueError` unless it holds."""
    if not holds:
        raise ValueError(problem)


def is_number(value: Any) -> bool:
    """Whether it is a finite one."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
