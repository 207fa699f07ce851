"""Networks run in bfloat16 here, which kills a process on some virtual machines."""

import pytest

from binaryrelax_lab.engine.bf16_on_cpu import make_bf16_safe


@pytest.fixture(scope="session", autouse=True)
def _safe_bf16():
    make_bf16_safe()
