"""How much `bench packed` measures, and what its parts share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from binaryrelax import Binary, Quantizer, Ternary

Mode = Literal["exact", "fast"]
SETS: dict[str, Quantizer] = {"1 bit": Binary(), "2 bits": Ternary()}
MODES: tuple[Mode, ...] = ("exact", "fast")
OUT_OF_CACHE = 400 << 20  # bytes; more than the last-level cache of the machines at hand


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much is measured; times are the least over the repetitions."""

    linear: tuple[tuple[int, int], ...] = ((4096, 4096), (4096, 11008))  # outputs, inputs
    batches: tuple[int, ...] = (1, 64)
    images: tuple[int, ...] = (1, 16)
    repetitions: int = 7
    bytes_in_turn: int = OUT_OF_CACHE
    threads: int = 2
    memory_layers: int = 8
    memory_width: int = 4096
    rivals: bool = True


def bound(run: Callable[[Any], Any], x: Any) -> Callable[[], Any]:
    """The call with this input."""
    return lambda: run(x)


def told(record: dict[str, Any]) -> str:
    """A record as a line."""
    error = f", error {record['error']:.1e}" if "error" in record else ""
    return f"{record['engine']:<30} {1e6 * record['seconds']:10.1f} us{error}"
