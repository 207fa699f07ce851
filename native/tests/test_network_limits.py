"""Small files that ask for much: refused before the memory is taken."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from binaryrelax_native import load
from native.tests.network_files import NetworkFileBuilder

ROOT = Path(__file__).parents[2]
MEGABYTE = 2**20


def written(path, content):
    path.write_bytes(content)
    return path


def test_too_many_operations(tmp_path):
    net = NetworkFileBuilder((4,))
    value = net.add("linear", 0, weight=net.packed("fc", (4, 4)))
    for _ in range(2**13):
        value = net.add("activate", value, activation={"kind": "relu"})
    with pytest.raises(ValueError, match="too many operations"):
        load(written(tmp_path / "net.brx", net.content(value)))


def test_too_many_outputs(tmp_path):
    net = NetworkFileBuilder((4,))
    value = net.add("linear", 0, weight=net.packed("fc", (4, 4)))
    with pytest.raises(ValueError, match="too many outputs"):
        load(written(tmp_path / "net.brx", net.content(*[value] * 2000)))


@pytest.mark.parametrize("mode", ["exact", "fast"])
def test_weights_that_thousands_of_operations_use(mode, tmp_path):
    net = NetworkFileBuilder((64,), mode=mode)
    value, name = 0, net.packed("fc", (64, 64))
    for _ in range(8000):
        value = net.add("linear", value, weight=name)
    load(written(tmp_path / "few.brx", net.content(value)))
    net = NetworkFileBuilder((256,), mode=mode)
    value, name = 0, net.packed("fc", (256, 256))
    for _ in range(8000):
        value = net.add("linear", value, weight=name)
    with pytest.raises(ValueError, match="they use the same ones too often"):
        load(written(tmp_path / "many.brx", net.content(value)))


def test_groups_of_few_channels(tmp_path):
    """A byte of codes for each row, and rows in sets of 16."""
    groups = 2**18
    net = NetworkFileBuilder((2 * groups, 1, 1))
    around = {"stride": [1, 1], "padding": [0] * 4, "dilation": [1, 1]}
    value = net.add(
        "conv", 0, weight=net.packed("conv", (groups, 2, 1, 1)), groups=groups, **around
    )
    with pytest.raises(ValueError, match="would take"):
        load(written(tmp_path / "net.brx", net.content(value)))


def test_wide_padding(tmp_path):
    """What a thread needs for its rows counts, too: 16 sums for four channels of 1 bit."""
    net = NetworkFileBuilder((64, 4, 4))
    far = 2**12
    value = net.add(
        "conv", 0, weight=net.packed("conv", (1, 64, 2, 1)), stride=[2 * far, 1],
        padding=[far, far, 0, 0], dilation=[2 * far - 1, 1], groups=1,
    )  # fmt: skip
    path = written(tmp_path / "net.brx", net.content(value))
    with pytest.raises(ValueError, match="too much memory"):
        load(path, threads=1, most_memory=16 * MEGABYTE)
    x = np.ones((1, 64, 4, 4), np.float32)
    assert load(path, threads=1, most_memory=256 * MEGABYTE)(x).shape == (1, 1, 1, 4)


def test_outputs_count(tmp_path):
    net = NetworkFileBuilder((1, 8, 8))
    around = {"stride": [1, 1], "padding": [0] * 4, "dilation": [1, 1], "groups": 1}
    value = net.add("conv", 0, weight=net.packed("conv", (1, 1, 1, 1)), **around)
    value = net.add("upsample", value, kind="nearest", size=[512, 512])
    path = written(tmp_path / "net.brx", net.content(*[value] * 100))
    with pytest.raises(ValueError, match="too much memory"):
        load(path, threads=1, most_memory=64 * MEGABYTE)
    assert len(load(path, threads=1, most_memory=256 * MEGABYTE)(np.ones((1, 1, 8, 8)))) == 100


READS_SMALL_FILES = """
import resource, sys, time
from pathlib import Path

from binaryrelax import certify
from binaryrelax_native import load
from native.tests.network_mutants import KINDS, mutant

path, files = Path(sys.argv[1]), {"small": Path(sys.argv[1]).read_bytes()}
sizes = [line.split() for line in Path("/proc/self/status").read_text().splitlines()]
taken = next(1024 * int(words[1]) for words in sizes if words[0] == "VmSize:")
resource.setrlimit(resource.RLIMIT_AS, (taken + 256 * 2**20,) * 2)
slowest = 0.0
for seed in range(int(sys.argv[2])):
    for kind in KINDS:
        path.write_bytes(mutant(kind, seed, files)[1])
        for read in (certify, lambda path: load(path, threads=1)):
            start = time.monotonic()
            try:
                read(path)
            except ValueError:
                pass
            slowest = max(slowest, time.monotonic() - start)
print(slowest)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux how much memory it takes")
def test_no_forged_kilobyte_takes_much_memory_or_time(tmp_path):
    """Neither of `certify` nor of `load`: memory that is asked for counts, used or not."""
    net = NetworkFileBuilder((2, 6, 6), mode="fast")
    around = {"stride": [1, 1], "padding": [1] * 4, "dilation": [1, 1], "groups": 1}
    weight, bias = net.packed("conv", (4, 2, 3, 3)), net.floats("bias", 4)
    value = net.add("conv", 0, weight=weight, bias=bias, **around)
    value = net.add("adaptive_pool", value, kind="average", size=[1, 1])
    content = net.content(value)
    assert len(content) < 1600
    path = written(tmp_path / "net.brx", content)
    done = subprocess.run(
        [sys.executable, "-c", READS_SMALL_FILES, path, "6"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert float(done.stdout) < 2
