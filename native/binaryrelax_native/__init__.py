"""Networks with 1-bit and ternary weights on a CPU: whole ones, and the kernels beneath."""

from ._native import (
    PackedFilters as PackedFilters,
    PackedMatrix as PackedMatrix,
    __version__ as __version__,
    instruction_sets as instruction_sets,
    int8_peak as int8_peak,
)
from .network import Network as Network, load as load
