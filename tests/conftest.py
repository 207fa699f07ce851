"""One hypothesis profile for every test: no deadline, the same examples on every run."""

from hypothesis import settings

settings.register_profile("binaryrelax", deadline=None, derandomize=True, max_examples=20)
settings.load_profile("binaryrelax")
