from collections.abc import Sequence
from typing import Any

__version__: str

def instruction_sets() -> list[str]: ...

class PackedMatrix:
    def __init__(
        self, codes: Any, scale: Any, inputs: int, bits: int, instruction_set: str | None = None
    ) -> None: ...
    def multiply(self, x: Any, y: Any, bias: Any, fast: bool, threads: int) -> None: ...
    @property
    def nbytes(self) -> int: ...

class PackedFilters:
    def __init__(
        self,
        codes: Any,
        scale: Any,
        shape: Sequence[int],
        bits: int,
        stride: tuple[int, int],
        padding: tuple[int, int],
        dilation: tuple[int, int],
        groups: int,
        instruction_set: str | None = None,
    ) -> None: ...
    def convolve(self, x: Any, y: Any, bias: Any, fast: bool, threads: int) -> None: ...
    def output_size(self, height: int, width: int) -> tuple[int, int]: ...
    @property
    def nbytes(self) -> int: ...
