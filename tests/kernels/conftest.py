"""Kernels that are interpreted call small functions thousands of times: each call is made cheap."""

from tests.support.done_once import find_builtins_of_triton_once

find_builtins_of_triton_once()
