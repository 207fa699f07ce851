import threading
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from lab.tests.support import cifar_files, command
from lab.tests.support.cifar_files import ARCHIVES, assert_complete
from lab.tests.support.errors import one_line
from torch import distributed

from binaryrelax_lab.data import Share, download_cifar, fetch_missing_cifar, load_cifar
from binaryrelax_lab.engine.ranks import Ranks
from tests.support.ranks import run_on_ranks


class Server:
    """Sends the files of a folder, on this machine."""

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            pass

    class Counting(Handler):
        """Writes down each request, and takes its time."""

        def do_GET(self):
            self.write_down()
            super().do_GET()

        def do_CONNECT(self):
            """What a proxy is asked to do for https."""
            self.write_down()
            self.send_error(503)

        def write_down(self):
            with (Path(self.directory) / "requests").open("a") as file:
                file.write(f"{self.path}\n")
            time.sleep(0.3)

    class Breaking(Handler):
        """Promises more than it sends."""

        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"ten bytes.")

    def __init__(self, folder, handler=Handler):
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=folder))
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.01,))

    def __enter__(self):
        self.thread.start()
        return f"http://127.0.0.1:{self.http.server_port}/"

    def __exit__(self, *_):
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()


@pytest.fixture
def offered(tmp_path):
    """The folder that a server sends, with the binary archive of CIFAR-10, and the digests."""
    files = cifar_files.contents("cifar10", "binary")
    name = ARCHIVES["cifar10", "binary"]
    content = cifar_files.archive(files)
    folder = tmp_path / "offered"
    folder.mkdir()
    (folder / name).write_bytes(content)
    return folder, cifar_files.digests(files | {name: content})


def test_download_brings_the_checked_archive(offered, tmp_path):
    folder, digests = offered
    target = tmp_path / "deep" / "data"
    with Server(folder) as home:
        path = download_cifar("cifar10", target, home=home, digests=digests)
    assert list(target.iterdir()) == [path]
    assert_complete("cifar10", load_cifar("cifar10", target, digests=digests))


def test_a_download_that_is_not_the_official_file_leaves_nothing(offered, tmp_path):
    folder, _ = offered
    with (
        Server(folder) as home,
        pytest.raises(ValueError, match=r"cifar-10-binary\.tar\.gz sent something else") as caught,
    ):
        download_cifar("cifar10", tmp_path / "data", home=home)
    one_line(caught)
    assert list((tmp_path / "data").iterdir()) == []


def test_a_download_that_breaks_off_leaves_nothing(offered, tmp_path):
    folder, digests = offered
    with (
        Server(folder, Server.Breaking) as home,
        pytest.raises(ValueError, match=r"cannot be downloaded|sent something else") as caught,
    ):
        download_cifar("cifar10", tmp_path / "data", home=home, digests=digests)
    one_line(caught)
    assert list((tmp_path / "data").iterdir()) == []


def test_a_download_into_a_file_says_so(offered, tmp_path):
    (tmp_path / "data").write_text("a file")
    folder, digests = offered
    with (
        Server(folder) as home,
        pytest.raises(ValueError, match=r"cannot be downloaded into .*data \(.*exists") as caught,
    ):
        download_cifar("cifar10", tmp_path / "data", home=home, digests=digests)
    one_line(caught)


def test_a_failing_download_leaves_nothing_and_says_why(offered, tmp_path):
    _, digests = offered
    with Server(tmp_path) as home:  # does not offer it
        with pytest.raises(ValueError, match=r"cannot be downloaded.*404") as caught:
            download_cifar("cifar10", tmp_path / "data", home=home, digests=digests)
        one_line(caught)
    with pytest.raises(ValueError, match="cannot be downloaded") as caught:  # nobody answers now
        download_cifar("cifar10", tmp_path / "data", home=home, digests=digests)
    one_line(caught)
    assert list((tmp_path / "data").iterdir()) == []


def test_a_failing_download_keeps_what_was_there(offered, tmp_path):
    _, digests = offered
    old = tmp_path / ARCHIVES["cifar10", "binary"]
    old.write_bytes(b"old")
    with pytest.raises(ValueError, match="cannot be downloaded"):
        download_cifar("cifar10", tmp_path, home="http://127.0.0.1:9/", digests=digests)
    assert old.read_bytes() == b"old"


def fetch_on_this_rank(data, home, digests):
    """What each of several processes does with --download; how many images it then has."""
    ranks = Ranks(Share(distributed.get_rank(), distributed.get_world_size()), is_group=True)
    ranks.in_turn(partial(fetch_missing_cifar, "cifar10", data, home=home, digests=digests))
    return load_cifar("cifar10", data, digests=digests).num_train


def test_one_of_two_ranks_fetches_and_the_other_waits(offered, tmp_path):
    folder, digests = offered
    data = tmp_path / "data"
    with Server(folder, Server.Counting) as home:
        counts = run_on_ranks(fetch_on_this_rank, 2, tmp_path / "ranks", data, home, digests)
    assert (folder / "requests").read_text() == "/cifar-10-binary.tar.gz\n"
    assert [path.name for path in data.iterdir()] == ["cifar-10-binary.tar.gz"]
    assert counts == [load_cifar("cifar10", data, digests=digests).num_train] * 2


@pytest.mark.slow
def test_only_one_rank_of_the_command_asks_the_network(tmp_path, monkeypatch):
    """Their proxy refuses: all end, in the words of the one that asked."""
    with Server(tmp_path, Server.Counting) as proxy:
        monkeypatch.setitem(command.ENVIRONMENT, "https_proxy", proxy)
        monkeypatch.setitem(command.ENVIRONMENT, "no_proxy", "")
        arguments = ("train", "cifar10-resnet20-float", "--download", "--data", tmp_path / "data")
        status, _, errors = command.run(*arguments, "--out", tmp_path / "out", num_ranks=2)
    assert status == 1
    assert (tmp_path / "requests").read_text() == "www.cs.toronto.edu:443\n"
    complaints = [line for line in errors.splitlines() if line.startswith("binaryrelax: ")]
    assert complaints and all("cannot be downloaded" in line for line in complaints)
    assert list((tmp_path / "data").iterdir()) == []
