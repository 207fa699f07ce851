"""How large the run times are that a network needs, as pip has installed them."""

import zlib
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

LEVEL = 6  # of what packs wheels


def measure_runtimes(distributions: Mapping[str, str]) -> list[dict[str, Any]]:
    """One record per engine that is installed; what it needs beside numpy is not counted.

    The wheel's bytes are its files deflated one by one, as in a wheel: pip keeps no wheel.
    """
    records = []
    for engine, name in distributions.items():
        files = list(_files(name))
        if files:
            records.append(
                {
                    "engine": engine,
                    "version": distribution(name).version,
                    "wheel_bytes": sum(map(_deflated, files)),
                    "installed_bytes": sum(file.stat().st_size for file in files),
                }
            )
    return records


def _files(name: str) -> Iterable[Path]:
    """The installed files, but for what Python has compiled."""
    try:
        found = distribution(name).files or ()
    except PackageNotFoundError:
        return ()
    paths = (Path(str(file.locate())) for file in found if file.suffix != ".pyc")
    return (path for path in paths if path.is_file())


def _deflated(file: Path) -> int:
    packer, size = zlib.compressobj(LEVEL), 0
    with file.open("rb") as stream:
        while block := stream.read(1 << 20):
            size += len(packer.compress(block))
    return size + len(packer.flush())
