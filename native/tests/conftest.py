"""Without the module there is nothing to test: `make` goes on without it where it has no compiler."""

from importlib.util import find_spec

if find_spec("binaryrelax_native") is None:
    collect_ignore_glob = ["test_*.py"]
