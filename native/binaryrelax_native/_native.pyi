from collections.abc import Sequence
from typing import Any

__version__: str

def instruction_sets() -> list[str]:
    """Names of the instruction sets this CPU can run, best last.

    Examples:
        >>> from binaryrelax_native import instruction_sets
        >>> instruction_sets()[0]  # every CPU can run this one
        'portable'
    """

def int8_peak(instruction_set: str | None = None) -> float:
    """Multiply-additions of bytes per second that one core of this CPU can do, in registers alone.

    Takes about 20 milliseconds. Others on the machine make it smaller.

    Args:
        instruction_set: one of ``instruction_sets()``; the best if not given.

    Examples:
        >>> from binaryrelax_native import int8_peak
        >>> int8_peak("portable") > 1e6
        True
    """

class PackedMatrix:
    """A matrix of 1-bit or ternary weights, re-tiled for the CPU.

    Arrays are numpy's or anything that speaks DLPack, C-contiguous, in CPU memory.

    Args:
        codes: uint8 of shape (outputs, bytes of a row), the codes of a row from the lowest bits on.
            With 1 bit the codes 0 and 1 mean -1 and +1; with 2 bits 0, 1 and 2 mean -1, 0 and +1.
        scale: float32, one value or one for each output.
        inputs: the number of codes in a row.
        bits: 1 (binary) or 2 (ternary).
        instruction_set: one of ``instruction_sets()``; the best if not given.

    Raises:
        ValueError: an array or a number does not fit; the message names it.

    Examples:
        >>> import numpy as np
        >>> from binaryrelax_native import PackedMatrix
        >>> codes = np.array([[0b1101], [0b0111]], np.uint8)  # rows +1 -1 +1 +1 and +1 +1 +1 -1
        >>> matrix = PackedMatrix(codes, np.array([0.5], np.float32), inputs=4, bits=1)
        >>> x = np.array([[1, 2, 3, 4]], np.float32)
        >>> y = np.empty((1, 2), np.float32)
        >>> matrix.multiply(x, y, None, fast=False, threads=1)  # y = scale * (weights @ x)
        >>> y
        array([[3., 1.]], dtype=float32)
    """

    def __init__(
        self, codes: Any, scale: Any, inputs: int, bits: int, instruction_set: str | None = None
    ) -> None: ...
    def multiply(self, x: Any, y: Any, bias: Any, fast: bool, threads: int) -> None:
        """Write scale * (weights @ row) + bias into y for every row of x."""
    @property
    def nbytes(self) -> int:
        """Bytes of memory that the weights take."""

class PackedFilters:
    """Filters of 1-bit or ternary weights, re-tiled for the CPU.

    Arrays are numpy's or anything that speaks DLPack, C-contiguous, in CPU memory.

    Args:
        codes: uint8 of shape (outputs, bytes of a row), as for ``PackedMatrix``.
        scale: float32, one value or one for each output.
        shape: (outputs, inputs of a group, height, width).
        bits: 1 (binary) or 2 (ternary).
        stride: vertical and horizontal.
        padding: vertical and horizontal, with zeros.
        dilation: vertical and horizontal.
        groups: into which inputs and outputs are split.
        instruction_set: one of ``instruction_sets()``; the best if not given.

    Raises:
        ValueError: an array or a number does not fit; the message names it.

    Examples:
        >>> import numpy as np
        >>> from binaryrelax_native import PackedFilters
        >>> codes = np.array([[0b10_01_00]], np.uint8)  # one filter of 1 x 3 pixels: -1 0 +1
        >>> one = np.ones(1, np.float32)
        >>> filters = PackedFilters(codes, one, (1, 1, 1, 3), 2, (1, 1), (0, 0), (1, 1), 1)
        >>> filters.output_size(1, 5)
        (1, 3)
        >>> x = np.array([1, 2, 4, 8, 16], np.float32).reshape(1, 1, 5, 1)  # NHWC
        >>> y = np.empty((1, 1, 3, 1), np.float32)
        >>> filters.convolve(x, y, None, fast=False, threads=1)
        >>> y.ravel()
        array([ 3.,  6., 12.], dtype=float32)
    """

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
    def convolve(self, x: Any, y: Any, bias: Any, fast: bool, threads: int) -> None:
        """Write the convolution of the NHWC images x, times scale plus bias, into y."""
    def output_size(self, height: int, width: int) -> tuple[int, int]:
        """Height and width of the output for an image of this size."""
    @property
    def nbytes(self) -> int:
        """Bytes of memory that the weights take."""
