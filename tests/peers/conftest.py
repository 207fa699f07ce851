"""Networks run in bfloat16 here, which kills a process on some virtual machines."""

import pytest

from binaryrelax.lab.engine.cpu_products import make_bf16_safe


@pytest.fixture(scope="session", autouse=True)
def _safe_bf16():
    make_bf16_safe()
