"""Whole networks: what loading refuses, and that calls are right however and whenever they come."""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import binaryrelax_native as native
import numpy as np
import pytest
from native.tests.network_files import INPUTS, NetworkFileBuilder, networks
from tests.packed.archive import Archive, StoredTensor

SETS = native.instruction_sets()
FILES = networks()
RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Holds every network as a file."""
    folder = tmp_path_factory.mktemp("networks")
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture(params=FILES)
def name(request):
    return request.param


def inputs_for(name, count=3, seed=0):
    """Images or vectors for one of the networks."""
    random = np.random.default_rng(seed)
    shapes = INPUTS[name.split()[0]]
    return [random.normal(size=(count, *shape)).astype(np.float32) for shape in shapes]


def outputs_of(network, inputs):
    """Always a list."""
    found = network(*inputs)
    return list(found) if isinstance(found, tuple) else [found]


def assert_same(found, expected):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def assert_close(found, expected, tolerance):
    """Relative to the largest output."""
    for a, b in zip(found, expected, strict=True):
        assert np.abs(a - b).max() <= tolerance * np.abs(b).max()


# Loading


def refused(path, **options):
    with pytest.raises(ValueError) as caught:
        native.load(path, **options)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_a_missing_file_is_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"net\.brx"):
        native.load(tmp_path / "net.brx")


def test_a_folder_and_a_pipe_are_no_files(tmp_path):
    assert "is a folder" in refused(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert "is no plain file" in refused(tmp_path / "pipe")


@pytest.mark.parametrize("content", [b"", b"no network", bytes(100), b"\xff" * 4096])
def test_other_files_are_refused_by_name(content, tmp_path):
    (tmp_path / "net.brx").write_bytes(content)
    assert refused(tmp_path / "net.brx").startswith(f"{tmp_path / 'net.brx'}: ")


def test_files_that_end_too_soon_or_too_late_are_refused(folder, name, tmp_path):
    content, path = (folder / name).read_bytes(), tmp_path / "net.brx"
    for length in {*range(0, len(content), 97), 7, 8, 9, len(content) - 1}:
        path.write_bytes(content[:length])
        assert str(path) in refused(path)
    path.write_bytes(content + b"\0")
    assert str(path) in refused(path)


def test_a_changed_bit_anywhere_is_noticed(folder, tmp_path):
    content, path = (folder / "residual fast").read_bytes(), tmp_path / "net.brx"
    for place in range(0, len(content), 11):
        changed = bytearray(content)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        assert str(path) in refused(path)


@pytest.mark.parametrize("tensor", ["conv1.codes", "conv1.scale", "first.weight", "factor"])
def test_a_changed_tensor_is_named(tensor, tmp_path):
    archive = Archive.of(FILES["residual exact"])
    content = bytearray(archive.tensors[tensor].content)
    content[-1] ^= 1
    archive.tensors[tensor].content = bytes(content)
    manifest = json.dumps(archive.manifest, separators=(",", ":"))
    (tmp_path / "net.brx").write_bytes(archive.with_manifest(manifest))
    said = refused(tmp_path / "net.brx")
    assert tensor.removesuffix(".codes").removesuffix(".scale") in said and "digest" in said


def test_a_newer_version_asks_for_an_update(tmp_path):
    archive = Archive.of(FILES["residual exact"])
    archive.manifest["version"] = 4
    (tmp_path / "net.brx").write_bytes(archive.signed())
    assert "update" in refused(tmp_path / "net.brx")


def test_a_packed_file_without_a_program_is_no_network(tmp_path):
    archive = Archive.of(FILES["residual exact"])
    del archive.manifest["program"]
    archive.manifest["version"] = 1
    (tmp_path / "net.brx").write_bytes(archive.signed())
    assert "export_native" in refused(tmp_path / "net.brx")


def test_tensors_of_types_that_no_network_has_are_refused(tmp_path):
    archive = Archive.of(FILES["residual exact"])
    archive.tensors["factor"] = StoredTensor("F64", [4], bytes(32))
    (tmp_path / "net.brx").write_bytes(archive.signed())
    assert "'factor' is neither U8 nor F32" in refused(tmp_path / "net.brx")


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"threads": 0}, "threads=0"),
        ({"threads": -3}, "threads=-3"),
        ({"threads": 10**6}, "threads=1000000"),
        ({"instruction_set": "sse"}, "sse"),
        ({"most_memory": 1000}, "memory|numbers"),
    ],
)
def test_wrong_options_are_refused(options, what, folder):
    with pytest.raises(ValueError, match=what):
        native.load(folder / "residual fast", **options)


# Calling


def test_a_network_says_what_it_is(folder):
    network = native.load(folder / "vectors fast", threads=3, instruction_set="portable")
    assert (network.mode, network.threads, network.instruction_set) == ("fast", 3, "portable")
    assert network.input_shapes == [(6,), (2, 4, 4)]
    assert network.about == {"task": "a small one"}
    assert 0 < network.nbytes < 100_000
    assert repr(network) == (
        f"Network({str(folder / 'vectors fast')!r}, mode='fast', inputs=(N, 6), (N, 2, 4, 4))"
    )
    assert native.load(folder / "residual exact").mode == "exact"


@pytest.mark.parametrize(
    ("name", "shapes", "what"),
    [
        ("residual", [(3, 9, 8)], "input 0: must have 4 dimensions, has 3"),
        ("residual", [(1, 4, 9, 8)], "input 0: must have 3 channels, has 4"),
        ("residual", [(1, 3, 9, 0)], "input 0: has no values"),
        ("residual", [(1, 3, 9, 8)] * 2, "takes 1 inputs, not 2"),
        ("residual", [], "takes 1 inputs, not 0"),
        ("mobile", [(1, 4, 1, 1)], "."),  # smaller than what is pooled
        ("vectors", [(2, 7), (2, 2, 4, 4)], "input 0: must have 6"),
        ("vectors", [(2, 6), (2, 2, 4, 5)], "takes 32 features"),
        ("vectors", [(2, 6), (3, 2, 4, 4)], "input 1: is a batch of 3, input 0 of 2"),
    ],
)
def test_wrong_inputs_are_refused_in_one_line_and_harm_nothing(name, shapes, what, folder):
    network = native.load(folder / f"{name} fast", threads=1)
    expected = outputs_of(network, inputs_for(name))
    with pytest.raises(ValueError, match=what) as caught:
        network(*(np.zeros(shape, np.float32) for shape in shapes))
    assert "\n" not in str(caught.value)
    assert_same(outputs_of(network, inputs_for(name)), expected)


def test_inputs_may_be_anything_that_numpy_takes_for_floats(folder, name):
    network = native.load(folder / name, threads=1)
    inputs = [np.rint(x) for x in inputs_for(name)]
    kept = [x.copy() for x in inputs]
    expected = outputs_of(network, inputs)
    for change in (
        lambda x: x.astype(np.float64),
        lambda x: x.astype(np.int8),
        lambda x: x.tolist(),
        lambda x: np.asfortranarray(x),
        lambda x: np.repeat(x, 2, axis=0)[::2],
        lambda x: (
            np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(x.shape)
        ),
    ):
        assert_same(outputs_of(network, [change(x) for x in inputs]), expected)
    assert_same(inputs, kept)


def test_outputs_of_one_call_stay_when_the_next_comes(folder, name):
    network = native.load(folder / name)
    first = outputs_of(network, inputs_for(name))
    kept = [y.copy() for y in first]
    outputs_of(network, inputs_for(name, seed=1))
    assert_same(first, kept)


def test_an_empty_batch_gives_an_empty_output(folder, name):
    network = native.load(folder / name)
    whole = outputs_of(network, inputs_for(name, count=1))
    for y, one in zip(outputs_of(network, inputs_for(name, count=0)), whole, strict=True):
        assert y.shape == (0, *one.shape[1:]) and y.dtype == np.float32
    assert_same(outputs_of(network, inputs_for(name, count=1)), whole)


@pytest.mark.parametrize("set_name", SETS)
def test_any_number_of_threads_gives_the_same_bits(folder, name, set_name):
    for count in (1, 5, 12):  # the last are enough for threads to have images of their own
        inputs = inputs_for(name, count)
        alone = native.load(folder / name, threads=1, instruction_set=set_name)
        expected = outputs_of(alone, inputs)
        assert all(np.isfinite(y).all() for y in expected)
        for threads in (2, 3, 4, 17):
            network = native.load(folder / name, threads=threads, instruction_set=set_name)
            for _ in range(5):
                assert_same(outputs_of(network, inputs), expected)


def test_all_instruction_sets_agree(folder, name):
    """Bytes and their sums are whole numbers; in mode exact the order of sums is each one's own."""
    inputs = inputs_for(name, 4)
    expected = outputs_of(native.load(folder / name, instruction_set=SETS[0]), inputs)
    for set_name in SETS[1:]:
        found = outputs_of(native.load(folder / name, instruction_set=set_name), inputs)
        assert_close(found, expected, 2e-6) if "exact" in name else assert_same(found, expected)


@pytest.mark.parametrize("set_name", SETS)
def test_an_image_gives_the_same_bits_in_any_batch(folder, name, set_name):
    network = native.load(folder / name, threads=2, instruction_set=set_name)
    inputs = inputs_for(name, 19)
    whole = outputs_of(network, inputs)
    for row in range(19):
        alone = outputs_of(network, [x[row : row + 1] for x in inputs])
        assert_same(alone, [y[row : row + 1] for y in whole])


@pytest.mark.parametrize("mode", ["exact", "fast"])
def test_more_sizes_than_are_remembered_come_and_come_again(folder, mode):
    network = native.load(folder / f"residual {mode}", threads=2)
    sizes = [(3, 3 + n % 7, 3 + n // 3) for n in range(40)]
    images = [
        RNG.normal(size=(1 + n % 3, *size)).astype(np.float32) for n, size in enumerate(sizes)
    ]
    first = [network(x) for x in images]
    assert_same([network(x) for x in reversed(images)][::-1], first)
    fresh = native.load(folder / f"residual {mode}", threads=1)
    assert_same([fresh(x) for x in images], first)


def test_networks_take_turns_in_one_thread(folder):
    """What a thread keeps of one network's weights must not be taken for another's."""
    alone = {}
    for name in FILES:
        alone[name] = outputs_of(native.load(folder / name, threads=1), inputs_for(name))
    together = {name: native.load(folder / name, threads=1) for name in FILES}
    for _ in range(3):
        for name, network in together.items():
            assert_same(outputs_of(network, inputs_for(name)), alone[name])
    for seed in range(20):  # where the last one was in memory
        net = NetworkFileBuilder((8,), mode="fast", seed=seed)
        x = net.add("linear", 0, weight=net.packed("fc", (8, 8)))
        (folder / "small").write_bytes(net.content(x))
        network = native.load(folder / "small", threads=1)
        weight = net_weight(net)
        np.testing.assert_allclose(network(np.eye(8)), weight.T, rtol=0.02, atol=1e-3)


def net_weight(net):
    """The float weight of the 1-bit matrix `fc`."""
    codes = np.frombuffer(net.tensors["fc.codes"].content, np.uint8).reshape(8, 1)
    scale = np.frombuffer(net.tensors["fc.scale"].content, np.float32)
    return (2.0 * np.unpackbits(codes, axis=1, bitorder="little") - 1) * scale


# What is no number


@pytest.mark.parametrize("set_name", SETS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_shows_in_its_image_and_no_other(folder, name, set_name, bad):
    network = native.load(folder / name, threads=2, instruction_set=set_name)
    inputs = inputs_for(name, 9)
    expected = outputs_of(network, inputs)
    for x in inputs:
        x[2].flat[x[2].size // 2] = bad
    with np.errstate(invalid="ignore"):
        found = outputs_of(network, inputs)
    for y, usual in zip(found, expected, strict=True):
        others = [0, 1, *range(3, 9)]
        np.testing.assert_array_equal(y[others], usual[others])
        if np.isnan(bad) or "fast" in name:
            assert np.isnan(y[2]).any()
    assert_same(outputs_of(network, inputs_for(name, 9)), expected)


RANGES = {  # of inputs and of all other values
    "measured": (None, None),
    "calibrated": ([-1.5, 2], [-2, 3]),
    "mixed": (None, [-2, 3]),
    "mixed otherwise": ([-1.5, 2], None),
}


def two_branches(mode, ranges="measured"):
    """Two inputs that never meet: each has two convolutions and an output."""
    net = NetworkFileBuilder((3, 5, 5), (4, 5, 5), mode=mode)
    around = {"stride": [1, 1], "padding": [1, 1, 1, 1], "dilation": [1, 1], "groups": 1}
    relu, outputs = {"kind": "relu"}, []
    for value, channels in ((0, 3), (1, 4)):
        weight = net.packed(f"first{value}", (6, channels, 3, 3))
        x = net.add("conv", value, weight=weight, activation=relu, **around)
        weight = net.packed(f"second{value}", (6, 6, 3, 3))
        outputs.append(net.add("conv", x, weight=weight, **around))
    archive = Archive.of(net.content(*outputs))
    of_inputs, others = RANGES[ranges]
    archive.manifest["program"]["ranges"] = [of_inputs] * 2 + [others] * len(net.operations)
    return archive.signed()


@pytest.mark.parametrize("set_name", SETS)
@pytest.mark.parametrize("mode", ["exact", "fast"])
@pytest.mark.parametrize("ranges", RANGES)
@pytest.mark.parametrize("position", [0, 1])
def test_no_range_hides_what_is_not_finite(mode, ranges, position, set_name, tmp_path):
    (tmp_path / "net").write_bytes(two_branches(mode, ranges))
    network = native.load(tmp_path / "net", instruction_set=set_name)
    inputs = [RNG.normal(size=(3, n, 5, 5)).astype(np.float32) for n in (3, 4)]
    expected = network(*inputs)
    inputs[position][1, 2, 2, 2] = np.nan
    found = network(*inputs)
    assert np.isnan(found[position][1]).any()
    for y, usual in zip(found, expected, strict=True):
        np.testing.assert_array_equal(y[[0, 2]], usual[[0, 2]])


@pytest.mark.parametrize("mode", ["exact", "fast"])
@pytest.mark.parametrize("counts", [(1, 200), (200, 1), (0, 3), (3, 0)])
def test_all_inputs_are_one_batch(mode, counts, tmp_path):
    (tmp_path / "net").write_bytes(two_branches(mode, "calibrated"))
    network = native.load(tmp_path / "net")
    images = [np.full((n, c, 5, 5), np.nan) for n, c in zip(counts, (3, 4), strict=True)]
    with pytest.raises(ValueError, match=r"input 1: is a batch of \d+, input 0 of \d+"):
        network(*images)


@pytest.mark.parametrize("magnitude", [0.0, 1e-44, 1e-38, 1e-30, 1e-3, 1e3, 1e20, 1e30])
def test_small_and_large_images_are_taken(folder, magnitude):
    exact, fast = (native.load(folder / f"residual {mode}") for mode in ("exact", "fast"))
    x = (inputs_for("residual")[0].astype(np.float64) * magnitude).astype(np.float32)
    assert np.isfinite(exact(x)).all() and np.isfinite(fast(x)).all()


# Memory and time


def test_memory_is_what_a_call_needs_and_no_less(folder, name):
    one = [(1, *shape) for shape in INPUTS[name.split()[0]]]
    needed = native.load(folder / name).memory(*one)
    assert needed > 0
    enough = native.load(folder / name, most_memory=needed)
    assert_same(
        outputs_of(enough, inputs_for(name, 1)),
        outputs_of(native.load(folder / name), inputs_for(name, 1)),
    )
    assert "memory" in refused(folder / name, most_memory=needed - 1)


@pytest.mark.parametrize("mode", ["exact", "fast"])
def test_larger_images_than_memory_allows_are_refused_and_others_go_on(folder, mode):
    needed = native.load(folder / f"residual {mode}").memory((1, 3, 40, 40))
    network = native.load(folder / f"residual {mode}", most_memory=needed - 1)
    with pytest.raises(ValueError, match=r"memory|numbers"):
        network(np.zeros((1, 3, 40, 40)))
    assert np.isfinite(network(*inputs_for("residual"))).all()


def test_images_of_absurd_sizes_are_refused_before_memory_is_taken(folder):
    network = native.load(folder / "residual fast")
    for shape in ((1, 3, 10**6, 10**6), (1, 3, 2**40, 2**40)):
        with pytest.raises(ValueError, match=r"memory|numbers"):
            network.memory(shape)


def test_many_images_need_no_more_memory_than_some(folder):
    network = native.load(folder / "residual fast", threads=2)
    assert network.memory((10**9, 3, 9, 8)) < 2**23


def test_a_thousand_calls_take_no_more_memory(folder):
    def resident():
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    if not Path("/proc/self/statm").is_file():
        pytest.skip("reads how much memory it has from /proc")
    network = native.load(folder / "residual fast", threads=2)
    images = [RNG.normal(size=(n, 3, 9, 8 + n)).astype(np.float32) for n in range(1, 9)]
    for x in images * 3:
        network(x)
    before = resident()
    for _ in range(125):
        for x in images:
            network(x)
    assert resident() - before < 2**21


def test_profiles_name_the_operations(folder, name):
    network = native.load(folder / name)
    steps = network.profile(*inputs_for(name))
    assert all(took >= 0 for _, took in steps)
    named = {step.partition(":")[0] for step, _ in steps}
    operations = {op["name"] for op in Archive.of(FILES[name]).manifest["program"]["operations"]}
    done_alone = {op for op in operations if op.startswith(("conv", "linear"))}
    assert done_alone <= named
    assert network.run_time_ms(*inputs_for(name), repetitions=3) > 0
    with pytest.raises(ValueError, match=r"channels|features|must have"):
        network.profile(*(x[:, :1] for x in inputs_for(name)))


# Threads and processes


def call_from_threads(network, jobs, seconds):
    """Calls from eight Python threads, in turn on their inputs: how many, and how many were wrong.

    Args:
        network: that all of them call.
        jobs: the inputs of each, for one call after the other.
        seconds: how long.
    """
    alone = [[outputs_of(network, inputs) for inputs in job] for job in jobs]
    calls, wrong = [0] * len(jobs), [0] * len(jobs)
    end = time.monotonic() + seconds

    def work(number):
        while time.monotonic() < end or calls[number] < 3:
            turn = calls[number] % len(jobs[number])
            found = outputs_of(network, jobs[number][turn])
            pairs = zip(found, alone[number][turn], strict=True)
            wrong[number] += not all(np.array_equal(a, b) for a, b in pairs)
            calls[number] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(calls), sum(wrong)


def test_eight_threads_may_call_one_network_at_once(folder, name):
    network = native.load(folder / name, threads=2)
    jobs = [[inputs_for(name, 1 + number % 3, seed=number)] for number in range(8)]
    assert call_from_threads(network, jobs, seconds=0.25)[1] == 0


def images_of_many_sizes():
    """For eight threads: more sizes than a network remembers plans for."""
    return [
        [[RNG.normal(size=(1 + n % 2, 3, 4 + n, 5 + turn)).astype(np.float32)] for turn in range(4)]
        for n in range(8)
    ]


@pytest.mark.parametrize("mode", ["exact", "fast"])
def test_eight_threads_may_call_with_many_sizes_at_once(folder, mode):
    network = native.load(folder / f"residual {mode}", threads=2)
    assert call_from_threads(network, images_of_many_sizes(), seconds=0.25)[1] == 0


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "seconds"), [("fast", 60), ("exact", 15)])
def test_eight_threads_call_one_network_for_long(folder, mode, seconds):
    network = native.load(folder / f"residual {mode}", threads=2)
    jobs = [[inputs_for("residual", 1 + n % 3, seed=n)] for n in range(4)]
    calls, wrong = call_from_threads(network, jobs + images_of_many_sizes()[:4], seconds)
    assert wrong == 0 and calls > 1000


def test_other_python_threads_go_on_during_a_call(folder):
    network = native.load(folder / "residual exact", threads=1)
    x = np.zeros((64, 3, 160, 160), np.float32)
    network(x)
    ticks, stop = [], threading.Event()

    def count():
        while not stop.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.001)

    counter = threading.Thread(target=count)
    counter.start()
    begin = time.monotonic()
    network(x)
    end = time.monotonic()
    stop.set()
    counter.join()
    during = sum(begin + 0.1 * (end - begin) < tick < end - 0.1 * (end - begin) for tick in ticks)
    assert end - begin > 0.02, "too short a call to say anything"
    assert during >= 3


FORK = """
import os, signal, sys, threading
import numpy as np
import binaryrelax_native as native

network = native.load(sys.argv[1], threads=4)
x = np.linspace(-1, 1, 2 * 3 * 9 * 8, dtype=np.float32).reshape(2, 3, 9, 8)
expected = network(x)
stop = threading.Event()
def keep_busy():
    while not stop.is_set():
        network(x)
busy = [threading.Thread(target=keep_busy) for _ in range(3)]
for thread in busy:
    thread.start()
for turn in range(int(sys.argv[2])):
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        fresh = native.load(sys.argv[1], threads=4)
        right = all(np.array_equal(net(x), expected) for net in (network, fresh, network))
        os._exit(0 if right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
stop.set()
for thread in busy:
    thread.join()
assert np.array_equal(network(x), expected)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("mode", ["exact", "fast"])
@pytest.mark.parametrize("forks", [20, pytest.param(400, marks=pytest.mark.slow)])
def test_a_forked_child_calls_networks_that_the_parent_was_calling(folder, mode, forks):
    command = [sys.executable, "-c", FORK, folder / f"residual {mode}", str(forks)]
    done = subprocess.run(command, timeout=300, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
