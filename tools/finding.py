"""The files in results/findings: what an experiment has seen, and where."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from binaryrelax.lab.engine.environment import describe_environment
from binaryrelax.lab.engine.machine import Machine

FOLDER = Path(__file__).parents[1] / "results" / "findings"


def read_records(name: str) -> list[dict[str, Any]]:
    """The records of results/findings/NAME.json, as many as there are yet."""
    file = FOLDER / f"{name}.json"
    return json.loads(file.read_text())["records"] if file.exists() else []


def write_finding(name: str, records: list[dict[str, Any]], **more: Any) -> None:
    """Writes results/findings/NAME.json, for an experiment on this CPU."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    content = {"environment": describe_environment(Machine()), **more, "records": records}
    (FOLDER / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")
    print(f"{FOLDER / name}.json: written")
