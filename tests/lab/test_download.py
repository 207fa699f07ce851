import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from binaryrelax.lab.data import download_cifar, load_cifar
from tests.lab import cifar_files
from tests.lab.cifar_files import ARCHIVES, assert_complete
from tests.lab.errors import one_line


class Server:
    """Sends the files of a folder, on this machine."""

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            pass

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
