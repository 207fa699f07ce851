"""One hypothesis profile for every test, one thread for each process, and kernels on the CPU."""

import gc
import os

import torch
from hypothesis import settings

settings.register_profile("binaryrelax", deadline=None, derandomize=True, max_examples=12)
settings.load_profile("binaryrelax")
torch.set_num_threads(1)  # on small tensors, waiting for a busy core costs more than it gives
if not torch.cuda.is_available():  # Triton reads it when it is imported, which no test has done yet
    os.environ.setdefault("TRITON_INTERPRET", "1")


def pytest_collection_finish() -> None:
    """What was imported stays: the garbage collector need not look through it again and again."""
    gc.collect()
    gc.freeze()
