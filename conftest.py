"""What holds for all tests: hypothesis, threads, kernels on the CPU, and interrupts that work."""

import gc
import os
import signal

import torch
from hypothesis import settings

settings.register_profile("binaryrelax", deadline=None, derandomize=True, max_examples=12)
settings.load_profile("binaryrelax")
torch.set_num_threads(1)  # on small tensors, waiting for a busy core costs more than it gives
if not torch.cuda.is_available():  # Triton reads it when it is imported, which no test has done yet
    os.environ.setdefault("TRITON_INTERPRET", "1")
# A job in the background of a script ignores it, and so would the processes that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """What was imported stays: the garbage collector need not look through it again and again."""
    gc.collect()
    gc.freeze()
