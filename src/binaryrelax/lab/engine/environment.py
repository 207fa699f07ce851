"""Where a result comes from: versions, device and commit."""

import os
import platform
import subprocess
from pathlib import Path

import numpy
import torch

import binaryrelax
from binaryrelax.lab.engine.machine import Machine


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
        "git_commit": git_commit(Path(binaryrelax.__file__)),
    }


def git_commit(file: Path) -> str | None:
    """The commit that is checked out where `file` lies, or None if git does not track it.

    A copy of the sources without their history is told by BINARYRELAX_COMMIT.
    """
    if "BINARYRELAX_COMMIT" in os.environ:
        return os.environ["BINARYRELAX_COMMIT"]
    if _git(file.parent, "ls-files", "--error-unmatch", file.name) is None:
        return None
    return _git(file.parent, "rev-parse", "HEAD")


def _git(folder: Path, *arguments: str) -> str | None:
    """What a git command says, or None if it fails or there is no git."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
