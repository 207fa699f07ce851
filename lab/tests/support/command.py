"""The real command, in processes of its own, alone or under torchrun."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from binaryrelax.cli.app import make_app
from binaryrelax.cli.plugins import Plugins
from binaryrelax_lab.engine import FINAL_NAME, RESULT_NAME, read_json

ROOT = Path(__file__).parents[3]
app = make_app(Plugins.installed())  # the command inside this process
PATIENCE = 120  # seconds, after which a process is taken to hang
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}


def start(*arguments: str, module: str = "binaryrelax", num_ranks: int = 0) -> subprocess.Popen:
    """Starts ``python -m module``, or as many of them as there are ranks."""
    launcher = [sys.executable]
    if num_ranks:
        launcher += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={num_ranks}"]
    return subprocess.Popen(
        [*launcher, "-m", module, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=ENVIRONMENT,
    )


def finish(process: subprocess.Popen) -> tuple[int, str, str]:
    """Exit status, output and errors of a process that must not hang."""
    try:
        output, errors = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    return process.returncode, output, errors


def run(*arguments: str, **options) -> tuple[int, str, str]:
    """Exit status, output and errors of a whole run."""
    return finish(start(*arguments, **options))


def wait_for_line(process: subprocess.Popen, words: str) -> str:
    """What the process says up to the line with these words."""
    said = []
    for line in process.stdout:
        said.append(line)
        if words in line:
            return "".join(said)
    raise AssertionError(f"ended before saying {words!r}: {''.join(said)}{process.stderr.read()}")


def wait_until(holds: Callable[[], bool], process: subprocess.Popen) -> bool:
    """Waits for something with open eyes; False if the process ends before."""
    end = time.monotonic() + PATIENCE
    while process.poll() is None:
        if holds():
            return True
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.0005)
    return False


def kill(process: subprocess.Popen) -> None:
    """What the out-of-memory killer does."""
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=PATIENCE)


def files_in(folder: Path) -> dict[str, bytes]:
    """All files below the folder and what they hold."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def evidence(folder: Path) -> tuple[bytes, list]:
    """What two runs of the same job must have in common: the weights and the records of epochs."""
    return (folder / FINAL_NAME).read_bytes(), read_json(folder / RESULT_NAME)["epochs"]


def children_of(pid: int) -> Iterator[int]:
    """The processes that a process has started, at any depth."""
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        yield int(child)
        yield from children_of(int(child))
