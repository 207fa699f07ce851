"""Without the module nothing is tested: `make` goes on without it where there is no compiler."""

from importlib.util import find_spec

if find_spec("binaryrelax_native") is None:
    collect_ignore_glob = ["test_*.py"]
