"""Networks run in bfloat16 here, which kills a process on some virtual machines."""

from importlib.util import find_spec

import pytest

from binaryrelax_lab.engine.bf16_on_cpu import make_bf16_safe


@pytest.fixture(scope="session", autouse=True)
def _safe_bf16():
    make_bf16_safe()


OF_HOSTS = {
    "transformers": ["test_accelerate.py", "test_trainer.py"],
    "lightning": ["test_lightning.py"],
}
collect_ignore = [file for host, files in OF_HOSTS.items() if not find_spec(host) for file in files]
