"""Saving that goes wrong leaves the file of before."""

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from binaryrelax import Binary, Ternary, certify, load_packed, save_packed
from binaryrelax.packed.writing import write_atomically
from tests.packed.cases import packed_copy, same_snapshot, small_network, snapshot

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
SAVE_ONCE = """
import sys
from binaryrelax import Binary, save_packed
from tests.packed.cases import packed_copy, small_network
save_packed(packed_copy(small_network, Binary())[1], sys.argv[1])
"""
SAVE_FOR_EVER = """
import sys
from binaryrelax import Binary, Ternary, save_packed
from tests.packed.cases import packed_copy, small_network
networks = [packed_copy(small_network, q)[1] for q in (Binary(), Ternary())]
while True:
    for network in networks:
        save_packed(network, sys.argv[1])
"""


def start(program: str, path: Path, **options) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", program, str(path)], cwd=ROOT, env=ENVIRONMENT, **options
    )


@pytest.fixture(scope="module")
def contents(tmp_path_factory):
    """The two files that the processes write."""
    folder = tmp_path_factory.mktemp("contents")
    for name, quantizer in (("binary", Binary()), ("ternary", Ternary())):
        save_packed(packed_copy(small_network, quantizer)[1], folder / name)
    return {(folder / name).read_bytes() for name in ("binary", "ternary")}


def test_a_file_that_may_not_grow_leaves_the_one_of_before(tmp_path):
    path = tmp_path / "f"
    save_packed(packed_copy(small_network, Ternary())[1], path)
    before = path.read_bytes()
    process = start(
        SAVE_ONCE,
        path,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)),
        stderr=subprocess.PIPE,
        text=True,
    )
    errors = process.communicate(timeout=60)[1]
    assert process.returncode == 1
    last = errors.splitlines()[-1]
    assert last.endswith(
        f"{path} cannot be written (File too large); what was there before is intact"
    )
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["f"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_only_a_full_disk_needs_room(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "open", lambda *_: open("/dev/full", "wb"))  # noqa: SIM115
    with pytest.raises(OSError, match=r"\(No space left on device\); .* is intact: make room$"):
        write_atomically(tmp_path / "f", b"content")


def test_a_folder_that_is_not_there_is_named(tmp_path):
    _, packed = packed_copy(small_network, Binary())
    with pytest.raises(OSError, match="none/f cannot be written"):
        save_packed(packed, tmp_path / "none" / "f")
    with pytest.raises(OSError, match="cannot be written"):
        save_packed(packed, tmp_path)


def check_killed(path: Path, contents: set[bytes], num_kills: int) -> None:
    """Kills processes that save all the time; the file is always one or the other."""
    for kill in range(num_kills):
        path.unlink(missing_ok=True)
        process = start(SAVE_FOR_EVER, path)
        try:
            while not path.exists():
                assert process.poll() is None
                time.sleep(0.01)
            for _ in range(20):  # also while it goes on
                assert path.read_bytes() in contents
            time.sleep(0.003 * (kill % 7))
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        assert path.read_bytes() in contents
        assert certify(path).ok


def test_killed_while_saving_a_process_leaves_one_file_or_the_other(tmp_path, contents):
    check_killed(tmp_path / "f", contents, num_kills=1)


@pytest.mark.slow
def test_killed_while_saving_at_fifteen_moments(tmp_path, contents):
    check_killed(tmp_path / "f", contents, num_kills=15)


def test_a_network_saved_over_its_own_file_is_whole(tmp_path):
    path = tmp_path / "f"
    _, packed = packed_copy(small_network, Ternary())
    save_packed(packed, path)
    loaded = load_packed(path, packed_copy(small_network, Binary())[1])
    save_packed(loaded, path)
    assert same_snapshot(snapshot(load_packed(path, loaded)), snapshot(packed))
    assert not torch.is_inference(loaded[0].codes)
