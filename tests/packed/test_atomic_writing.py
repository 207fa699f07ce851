"""Saving that goes wrong leaves the file of before."""

import os
import resource
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch

from binaryrelax import Binary, Ternary, certify, load_packed, save_packed
from binaryrelax.packed.atomic_writing import write_atomically
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


def test_a_path_that_is_no_place_for_a_file_is_said_in_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_bytes(b"before")
    (tmp_path / "circle").symlink_to("circle")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    before = sorted(os.listdir())
    for path, reason in {
        ".": "it is a folder", "": "it is a folder", "..": "it is a folder", "/": "it is a folder",
        "folder": "it is a folder", "link": "it is a folder", "pipe": "it is no plain file",
        "circle": "it is a link that leads in a circle", "none/f": "No such file or directory",
        "file/f": "Not a directory", "nul\0": "embedded null byte", "x" * 300: "File name too long",
    }.items():  # fmt: skip
        with pytest.raises(OSError) as caught:
            write_atomically(Path(path), b"content")
        text = str(caught.value)
        assert text.startswith(f"{Path(path)} cannot be written ({reason}") and "\n" not in text
        assert "what was there before is intact" in text
    assert sorted(os.listdir()) == before and Path("file").read_bytes() == b"before"


def test_saving_onto_a_link_writes_the_file_that_it_leads_to(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "here").mkdir()
    target = tmp_path / "there" / "net"
    (tmp_path / "there" / "again").symlink_to("net")
    link = tmp_path / "here" / "link"
    link.symlink_to("../there/again")
    for content in (b"dangling before", b"replaced"):
        write_atomically(link, content)
        assert link.is_symlink() and (tmp_path / "there" / "again").is_symlink()
        assert target.read_bytes() == content and not target.is_symlink()
    assert os.listdir(tmp_path / "here") == ["link"]
    assert sorted(os.listdir(tmp_path / "there")) == ["again", "net"]


def test_a_link_that_leads_into_no_folder_is_refused(tmp_path):
    (tmp_path / "link").symlink_to("none/net")
    with pytest.raises(OSError, match=r"link cannot be written .* make its folder first"):
        write_atomically(tmp_path / "link", b"content")
    assert (tmp_path / "link").is_symlink() and os.listdir(tmp_path) == ["link"]


def test_permissions_are_those_of_a_plain_file_and_stay_when_it_is_replaced(tmp_path):
    for umask in (0o022, 0o077, 0o002):
        path = tmp_path / f"{umask:o}"
        before = os.umask(umask)
        try:
            write_atomically(path, b"new")
            assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask
            for mode in (0o600, 0o640, 0o444, 0o666):
                path.chmod(mode)
                write_atomically(path, b"replaced")
                assert stat.S_IMODE(path.stat().st_mode) == mode
        finally:
            os.umask(before)


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
WRITE_AS_NOBODY = """
import os, sys
from pathlib import Path
from binaryrelax.packed.atomic_writing import write_atomically
os.setgid(65534)
os.setuid(65534)
write_atomically(Path(sys.argv[1]), b"new")
"""


@as_root
def test_a_file_keeps_its_owner_when_root_replaces_it(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"before")
    os.chown(path, 65534, 65534)
    write_atomically(path, b"new")
    assert (path.stat().st_uid, path.stat().st_gid) == (65534, 65534)


@as_root
@pytest.mark.parametrize("mode", [0o300, 0o500])
def test_what_is_said_of_a_folder_with_few_permissions_is_true(mode):
    """One that may be written and not read takes a file; one that may be read only does not."""
    with TemporaryDirectory(dir="/tmp") as parent:  # nobody may not enter pytest's own
        os.chmod(parent, 0o755)
        folder = Path(parent) / "folder"
        folder.mkdir()
        (folder / "f").write_bytes(b"before")
        for path in (folder, folder / "f"):
            os.chown(path, 65534, 65534)
        folder.chmod(mode)
        process = start(WRITE_AS_NOBODY, folder / "f", stderr=subprocess.PIPE, text=True)
        errors = process.communicate(timeout=60)[1]
        if mode == 0o300:
            assert process.returncode == 0, errors
            assert (folder / "f").read_bytes() == b"new"
        else:
            assert "(Permission denied); what was there before is intact" in errors
            assert (folder / "f").read_bytes() == b"before"
        assert os.listdir(folder) == ["f"]


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
