"""Launching a kernel again and again with the same arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

NUM_WARPS = 4


class Launch:
    """A kernel, its arguments and the number of its programs.

    Triton examines all arguments at each call, which takes longer than the kernels themselves.
    Here they never change, so that is left to the first call; further ones hand over addresses.

    Args:
        kernel: a function made by ``triton.jit``.
        num_programs: programs to start.
        arguments: tensors, in the order of the kernel's parameters; each call adds numbers to them.
        num_warps: groups of 32 threads in each program.
        constants: its ``tl.constexpr`` parameters.
    """

    def __init__(
        self,
        kernel: Any,
        num_programs: int,
        arguments: tuple[Tensor, ...],
        *,
        num_warps: int = NUM_WARPS,
        **constants: Any,
    ) -> None:
        # Fusion is chosen, not left open: from 3.9 on, Triton warns where it is.
        self._first: Callable[..., Any] = lambda *numbers: kernel[(num_programs,)](
            *arguments, *numbers, **constants, num_warps=num_warps, enable_fp_fusion=True
        )
        self._grid = (num_programs, 1, 1)
        self._addresses = [tensor.data_ptr() for tensor in arguments]
        self._constants = [constants[name] for name in kernel.arg_names if name in constants]
        self._again: Callable[..., Any] | None = None

    def __call__(self, *numbers: float) -> None:
        if self._again is None:
            compiled = self._first(*numbers)
            if hasattr(compiled, "packed_metadata"):  # not under the interpreter
                self._again = compiled[self._grid]
        else:
            self._again(*self._addresses, *numbers, *self._constants)
