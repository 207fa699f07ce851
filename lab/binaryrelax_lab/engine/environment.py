"""Where a result comes from: versions, device, commit and date."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import numpy
import torch

import binaryrelax
from binaryrelax_lab.engine.machine import Machine

DIRTY = "-dirty"  # as git marks a tree with changes


def describe_environment(machine: Machine) -> dict[str, str | int | bool | None]:
    """What has to be known to repeat a run."""
    device = torch.cuda.get_device_name(machine.device) if machine.is_gpu else platform.machine()
    return {
        "binaryrelax": binaryrelax.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "platform": f"{platform.system()} {platform.machine()}",
        "device": device,
        "threads": torch.get_num_threads(),
        "processes": machine.ranks.share.world_size,
        "precision": machine.precision,
        "deterministic": machine.deterministic,
        "other_jobs": machine.other_jobs,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        **describe_sources(Path(binaryrelax.__file__)),
    }


def describe_sources(file: Path) -> dict[str, str | bool | None]:
    """The commit that is checked out where `file` lies, and whether all is as it was committed.

    Both are None if git does not track the file. A copy of the sources without their history is
    told of them by BINARYRELAX_COMMIT, the answer of `git describe --always --dirty --abbrev=40`
    where they come from.
    """
    described = os.environ.get("BINARYRELAX_COMMIT") or _described_by_git(file)
    if described is None:
        return {"git_commit": None, "tree_clean": None}
    commit = described.removesuffix(DIRTY)
    return {"git_commit": commit, "tree_clean": commit == described}


def _described_by_git(file: Path) -> str | None:
    """The commit, marked if a tracked file differs from it."""
    if _git(file.parent, "ls-files", "--error-unmatch", file.name) is None:
        return None
    return _git(
        file.parent, "describe", "--always", f"--dirty={DIRTY}", "--abbrev=40", "--exclude=*"
    )


def _git(folder: Path, *arguments: str) -> str | None:
    """What a git command says, or None if it fails or there is no git."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
