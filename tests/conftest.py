"""One hypothesis profile for every test, and one thread for each test process."""

import torch
from hypothesis import settings

settings.register_profile("binaryrelax", deadline=None, derandomize=True, max_examples=12)
settings.load_profile("binaryrelax")
torch.set_num_threads(1)  # on small tensors, waiting for a busy core costs more than it gives
