"""CPU kernels for matrices and convolutions with 1-bit and ternary weights."""

from ._native import (
    PackedFilters as PackedFilters,
    PackedMatrix as PackedMatrix,
    __version__ as __version__,
    instruction_sets as instruction_sets,
)
