"""Running an exported network in the run time that it is for, in a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch import Tensor

from binaryrelax.export.expansion import as_array

Tensors = Sequence[Tensor]
SCRIPT = Path(__file__).with_name("runtime_child.py")


class CannotRun(Exception):
    """A run time does not take a network; says why, in one line."""


def outputs_of(
    runtime: str, file: Path, inputs: Sequence[Tensors], settings: Sequence[dict[str, str]]
) -> list[list[Tensors]]:
    """What a run time makes of several inputs, for each of several settings.

    Args:
        runtime: a key of ``LOADERS`` in ``runtime_child.py``.
        file: the network.
        inputs: one after the other; without any, the network is only loaded.
        settings: of the run time; an empty one means its own.

    Raises:
        CannotRun: it cannot, or has crashed.
    """
    with TemporaryDirectory() as folder:
        for place, tensors in enumerate(inputs):
            named = {f"{index:03}": as_array(x) for index, x in enumerate(tensors)}
            np.savez(Path(folder, f"{place}.npz"), **named)  # type: ignore[arg-type]
        # -P: this folder's own modules are not those of the run times, though called like them.
        command = [sys.executable, "-P", str(SCRIPT), runtime, str(file), folder]
        done = subprocess.run(
            [*command, json.dumps(list(settings))], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise CannotRun(_reason(done))
        return [
            [_read(Path(folder, f"{option}-{place}.npz")) for place in range(len(inputs))]
            for option in range(len(settings))
        ]


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    if done.returncode < 0:
        return f"its process died of {signal.Signals(-done.returncode).name}"
    lines = done.stderr.strip().splitlines()
    return lines[-1][:300] if lines else f"exit status {done.returncode}"


def _read(path: Path) -> list[Tensor]:
    with np.load(path) as content:
        return [torch.from_numpy(np.array(content[name])) for name in content.files]
