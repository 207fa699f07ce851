"""What the compiled module offers: `python -m nanobind.stubgen`, formatted by ruff."""

from collections.abc import Sequence

__version__: str

def instruction_sets() -> list[str]:
    """Names of the instruction sets this CPU can run, best last."""

class PackedMatrix:
    """A matrix of 1-bit or ternary weights, re-tiled for the CPU."""

    def __init__(
        self,
        codes: object,
        scale: object,
        inputs: int,
        bits: int,
        instruction_set: str | None = None,
    ) -> None: ...
    def multiply(self, x: object, y: object, bias: object | None, fast: bool, threads: int) -> None:
        """Write scale * (weights @ row) + bias into y for every row of x."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the weights take."""

class PackedFilters:
    """Filters of 1-bit or ternary weights, re-tiled for the CPU."""

    def __init__(
        self,
        codes: object,
        scale: object,
        shape: Sequence[int],
        bits: int,
        stride: tuple[int, int],
        padding: tuple[int, int],
        dilation: tuple[int, int],
        groups: int,
        instruction_set: str | None = None,
    ) -> None: ...
    def convolve(self, x: object, y: object, bias: object | None, fast: bool, threads: int) -> None:
        """
        Write the convolution of the NHWC images x, times scale plus bias, into y.
        """

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        """Height and width of the output for an image of this size."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the weights take."""
