"""The files in results/findings: what a study has seen, and where."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from binaryrelax_lab.engine.environment import describe_environment
from binaryrelax_lab.engine.machine import Machine
from binaryrelax_lab.files import read_json, write_json

Record = dict[str, Any]


def write_finding(path: Path, records: Iterable[Record], **about: Any) -> None:
    """Writes the records of a study on this CPU, with what else is to be known of them."""
    found = list(records)
    environment = describe_environment(Machine())
    write_json(path, {"environment": environment, **about, "records": found})


def add_to_finding(
    path: Path, records: Iterable[Record], *, key: tuple[str, ...], **about: Any
) -> None:
    """Puts each record beside those of earlier calls, as soon as it is there.

    Args:
        key: a record takes the place of an older one that has the same values of these.
    """
    old = read_json(path)["records"] if path.exists() else []
    by_key = {tuple(record[name] for name in key): record for record in old}
    for record in records:
        by_key[tuple(record[name] for name in key)] = record
        write_finding(path, [by_key[values] for values in sorted(by_key)], **about)
