"""`python -m binaryrelax_native`, in processes of its own."""

import os
import re
import subprocess
import sys

import binaryrelax_native as native
import numpy as np
import pytest
from native.tests.network_files import NetworkFileBuilder, residual

RESIDUAL = (3, 9, 8)  # channels, height and width of its images


def classifier(*, softmax: bool) -> bytes:
    """A linear layer over 6 features, 10 classes."""
    net = NetworkFileBuilder((6,))
    x = net.add("linear", 0, weight=net.packed("fc", (10, 6)), bias=net.floats("fc.bias", 10))
    return net.content(net.add("softmax", x, log=False) if softmax else x)


def two_outputs() -> bytes:
    net = NetworkFileBuilder((3, 4, 4), (3, 4, 4))
    total = net.add("add", 0, 1)
    around = {"stride": [1, 1], "padding": [1, 1, 1, 1], "dilation": [1, 1], "groups": 1}
    return net.content(
        net.add("conv", total, weight=net.packed("c", (2, 3, 3, 3)), **around), total
    )


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    (tmp_path / "net.brx").write_bytes(residual("fast"))
    (tmp_path / "logits.brx").write_bytes(classifier(softmax=False))
    (tmp_path / "softmax.brx").write_bytes(classifier(softmax=True))
    (tmp_path / "maps.brx").write_bytes(two_outputs())
    images = random.normal(size=(3, *RESIDUAL)).astype(np.float32)
    np.save("images.npy", images)
    np.save("last.npy", images.transpose(0, 2, 3, 1))
    np.save("none.npy", images[:0])
    np.save("bytes.npy", np.zeros((2, 9, 8, 3), np.uint8))
    np.save("whole.npy", np.zeros((2, *RESIDUAL), np.int64))
    np.save("many.npy", random.normal(size=(300, 6)).astype(np.float64))
    np.save("map.npy", random.normal(size=(2, 3, 4, 4)).astype(np.float32))
    np.savez("zip.npz", images)
    (tmp_path / "names.txt").write_text("".join(f"name of {k}\n" for k in range(10)))
    (tmp_path / "few.txt").write_text("one\ntwo\n")
    (tmp_path / "latin.txt").write_bytes("é\n".encode("latin-1"))
    return tmp_path


def command(*arguments: str, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "binaryrelax_native", *arguments],
        capture_output=True, text=True, check=False, timeout=60, **options,
    )  # fmt: skip


def said(*arguments: str) -> list[str]:
    done = command(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_classes_and_time_are_those_of_the_network(folder):
    lines = said("net.brx", "images.npy", "--threads", "1")
    scores = native.load("net.brx", threads=1)(np.load("images.npy"))
    for number, (line, row) in enumerate(zip(lines, scores, strict=False)):
        assert line == f"image {number}: class {row.argmax()} {row.max():.4f}"
    logits, times, machine = lines[3:]
    assert logits == "numbers are logits: the network ends without softmax"
    assert re.fullmatch(r"3 images in [\d.]+ ms, [\d.]+ ms each \(least of \d+\)", times)
    best = native.instruction_sets()[-1]
    assert re.fullmatch(rf"1 thread, {best}, mode fast; the file was loaded in [\d.]+ ms", machine)


def test_many_rows_are_taken_in_parts_and_the_best_classes_shown(folder):
    lines = said("softmax.brx", "many.npy", "--top", "3", "--labels", "names.txt")
    scores = native.load("softmax.brx")(np.load("many.npy"))
    assert len(lines) == 303 and lines[300] == "numbers are probabilities"
    for number, (line, row) in enumerate(zip(lines[:300], scores, strict=True)):
        best = ", ".join(f"name of {k} {row[k]:.4f}" for k in np.argsort(-row)[:3])
        assert line == f"image {number}: {best}"


def test_one_row_needs_no_batch(folder):
    np.save("one.npy", np.ones(6, np.float32))
    assert said("logits.brx", "one.npy")[0].startswith("image 0: class ")
    assert said("logits.brx", "one.npy")[2].startswith("1 image in ")


def test_outputs_that_are_no_scores_are_described(folder):
    lines = said("maps.brx", "map.npy", "map.npy")
    total = 2 * np.load("map.npy")
    assert lines[0].startswith("output 0: float32 (2, 2, 4, 4), from ")
    assert lines[1] == (
        f"output 1: float32 (2, 3, 4, 4), from {total.min():.4g} to {total.max():.4g}"
    )


def test_the_profile_has_every_step_and_shares_that_make_the_whole(folder):
    lines = said("net.brx", "images.npy", "--profile")
    start = lines.index("steps, in one thread, 3 images at once:")
    rows = [
        re.fullmatch(r"  (.*?) +([\d.]+) ms +([\d.]+)%", line) for line in lines[start + 1 : -1]
    ]
    network = native.load("net.brx")
    steps = [name for name, _ in network.profile(np.load("images.npy"))]
    assert [row[1] for row in rows] == steps
    assert abs(sum(float(row[3]) for row in rows) - 100) < 0.1 * len(rows)
    assert re.fullmatch(r"  all +[\d.]+ ms", lines[-1])


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("net.brx", "the following arguments are required: images; --help shows what there is"),
        ("net.brx images.npy --top 0", "--top 0: must be 1 or more"),
        ("net.brx images.npy --threads 0", "threads=0: must be between 1 and 1024"),
        ("net.brx images.npy --threads two", "--threads: invalid int value"),
        ("net.brx images.npy images.npy", "2 files of images are given, and the network takes 1"),
        ("absent.brx images.npy", "absent.brx: No such file or directory"),
        ("net.brx absent.npy", "absent.npy: No such file or directory"),
        (". images.npy", ". is a folder; give the file in it"),
        ("images.npy images.npy", "images.npy: is no intact safetensors file"),
        ("net.brx net.brx", "net.brx is no intact .npy file; numpy.save writes one"),
        ("net.brx zip.npz", "zip.npz is no intact .npy file"),
        ("net.brx last.npy", "numpy.transpose(images, (0, 3, 1, 2)) puts channels first"),
        ("net.brx none.npy", "none.npy has the shape (0, 3, 9, 8); the network takes float32"),
        ("net.brx many.npy", "many.npy has the shape (300, 6); the network takes float32 (N, 3,"),
        ("net.brx whole.npy", "whole.npy holds int64; the network takes float32 (N, 3, 9, 8)"),
        ("net.brx bytes.npy", "the file does not say how the network wants them; give float32"),
        ("net.brx images.npy --labels few.txt", "--labels has 2 names, and the network has 10"),
        ("net.brx images.npy --labels latin.txt", "--labels latin.txt is no text in UTF-8"),
        ("net.brx images.npy --labels absent.txt", "absent.txt: No such file or directory"),
        ("maps.brx map.npy map.npy --labels few.txt", "the network gives no scores of classes"),
        ("maps.brx map.npy images.npy", "the inputs have [2, 3] rows; all must have as many"),
    ],
)
def test_errors_are_one_line_and_status_2(arguments, reason, folder):
    done = command(*arguments.split())
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("binaryrelax_native: ") and reason in done.stderr


def test_a_damaged_file_is_one_line(folder):
    content = bytearray((folder / "net.brx").read_bytes())
    content[-9] ^= 4
    (folder / "net.brx").write_bytes(content)
    done = command("net.brx", "images.npy")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1) and "net.brx: " in done.stderr


def test_words_of_files_do_not_drive_the_terminal(folder):
    (folder / "names.txt").write_text("".join(f"\x1b[2J{k}\n" for k in range(10)))
    lines = said("net.brx", "images.npy", "--labels", "names.txt")
    assert "\x1b" not in "".join(lines) and "\\x1b[2J" in lines[0]


def test_help_has_examples(folder):
    text = "\n".join(said("--help"))
    assert "python -m binaryrelax_native net.brx images.npy --top 5 --labels names.txt" in text


def test_who_stops_reading_gets_no_traceback(folder):
    np.save("many.npy", np.ones((30_000, 6), np.float32))
    with subprocess.Popen(
        [sys.executable, "-m", "binaryrelax_native", "logits.brx", "many.npy"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as process:  # fmt: skip
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b"" and process.wait(timeout=60) == 0


def test_it_imports_numpy_and_nothing_else(folder):
    code = (
        "import sys; sys.argv = ['x', 'net.brx', 'images.npy']\n"
        "from binaryrelax_native.command import main\n"
        "main(); assert 'numpy' in sys.modules and not {'torch', 'binaryrelax'} & {*sys.modules}"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
