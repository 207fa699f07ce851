"""Wrong inputs, threads, processes."""

import os
import signal
import subprocess
import sys
import threading

import binaryrelax_native as native
import numpy as np
import pytest
from native.tests.reference import pack, random_codes

RNG = np.random.default_rng(0)
ONE = np.ones(1, np.float32)


def make_matrix(outputs=70, inputs=45, bits=2):
    return native.PackedMatrix(
        pack(random_codes(RNG, (outputs, inputs), bits), bits), ONE, inputs, bits
    )


def make_filters(**changes):
    codes = np.zeros((8, 5), np.uint8)
    options = {
        "codes": codes,
        "scale": ONE,
        "shape": (8, 4, 3, 3),
        "bits": 1,
        "stride": (1, 1),
        "padding": (1, 1),
        "dilation": (1, 1),
        "groups": 1,
    }
    return native.PackedFilters(**{**options, **changes})


WRONG_MATRICES = {
    "bits": {"bits": 3},
    "bits zero": {"bits": 0},
    "too few bytes": {"inputs": 100},
    "too many bytes": {"inputs": 4},
    "negative inputs": {"inputs": -1},
    "huge inputs": {"inputs": 2**40},
    "code 3": {"codes": np.full((3, 4), 0b00001100, np.uint8)},
    "padding bits": {"codes": np.full((3, 4), 0b01000000, np.uint8), "inputs": 15},
    "type of codes": {"codes": np.zeros((3, 4), np.int8)},
    "dimensions of codes": {"codes": np.zeros(12, np.uint8)},
    "strided codes": {"codes": np.zeros((3, 8), np.uint8)[:, ::2]},
    "no array": {"codes": "codes"},
    "type of scale": {"scale": np.ones(1)},
    "size of scale": {"scale": np.ones(2, np.float32)},
    "empty scale": {"scale": np.ones(0, np.float32)},
    "dimensions of scale": {"scale": np.ones((3, 1), np.float32)},
    "instruction set": {"instruction_set": "mmx"},
}


@pytest.mark.parametrize("changes", WRONG_MATRICES.values(), ids=WRONG_MATRICES)
def test_wrong_matrices_are_refused_in_one_line(changes):
    options = {"codes": np.zeros((3, 4), np.uint8), "scale": ONE, "inputs": 16, "bits": 2}
    native.PackedMatrix(**options)
    with pytest.raises(ValueError, match=r"^[^\n]+: [^\n]+$"):
        native.PackedMatrix(**{**options, **changes})


WRONG_FILTERS = {
    "shape of 3": {"shape": (8, 4, 9)},
    "zero in shape": {"shape": (8, 4, 0, 3)},
    "negative in shape": {"shape": (8, -4, 3, 3)},
    "another shape": {"shape": (8, 5, 3, 3)},
    "other rows": {"shape": (4, 4, 3, 3)},
    "overflowing shape": {"shape": (8, 2**22, 2**22, 2**22)},
    "stride": {"stride": (0, 1)},
    "padding": {"padding": (1, -1)},
    "dilation": {"dilation": (1, 0)},
    "huge dilation": {"dilation": (1, 2**62)},
    "groups": {"groups": 3},
    "no groups": {"groups": 0},
}


@pytest.mark.parametrize("changes", WRONG_FILTERS.values(), ids=WRONG_FILTERS)
def test_wrong_filters_are_refused_in_one_line(changes):
    with pytest.raises(ValueError, match=r"^[^\n]+: [^\n]+$"):
        make_filters(**changes)


def read_only(array):
    array.flags.writeable = False
    return array


def floats(*shape):
    return np.zeros(shape, np.float32)


WRONG_OPERANDS = {
    "shape of x": {"x": floats(2, 44)},
    "dimensions of x": {"x": floats(45)},
    "type of x": {"x": np.zeros((2, 45))},
    "strided x": {"x": floats(2, 90)[:, ::2]},
    "fortran x": {"x": np.asfortranarray(floats(2, 45))},
    "unaligned x": {"x": np.zeros(2 * 45 * 4 + 1, np.uint8)[1:].view(np.float32).reshape(2, 45)},
    "x is a list": {"x": [[0.0] * 45] * 2},
    "shape of y": {"y": floats(2, 71)},
    "rows of y": {"y": floats(3, 70)},
    "read-only y": {"y": read_only(floats(2, 70))},
    "shape of bias": {"bias": floats(69)},
    "type of bias": {"bias": np.zeros(70)},
    "no threads": {"threads": 0},
    "negative threads": {"threads": -1},
    "too many threads": {"threads": 10**6},
}


@pytest.mark.parametrize("changes", WRONG_OPERANDS.values(), ids=WRONG_OPERANDS)
def test_wrong_operands_are_refused_in_one_line(changes):
    options = {"x": floats(2, 45), "y": floats(2, 70), "bias": None, "fast": False, "threads": 1}
    make_matrix().multiply(**options)
    with pytest.raises(ValueError, match=r"^[^\n]+: [^\n]+$"):
        make_matrix().multiply(**{**options, **changes})


def test_y_must_not_be_x():
    shared = floats(2, 45)
    with pytest.raises(ValueError, match="share memory"):
        make_matrix(outputs=45).multiply(shared, shared, None, False, 1)


@pytest.mark.parametrize("shape", [(1, 5, 5, 3), (1, 5, 5), (1, 0, 5, 4)])
def test_wrong_images_are_refused(shape):
    filters = make_filters(padding=(0, 0))
    with pytest.raises(ValueError, match=r"^[^\n]+: [^\n]+$"):
        filters.convolve(floats(*shape), floats(1, 3, 3, 8), None, False, 1)


def test_images_smaller_than_the_filters_are_refused():
    with pytest.raises(ValueError, match="too small"):
        make_filters(padding=(0, 0)).output_size(2, 5)
    with pytest.raises(ValueError, match="negative"):
        make_filters().output_size(-1, 5)


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("batch", [1, 9])
def test_any_number_of_threads_gives_the_same_bits(fast, batch):
    matrix = make_matrix(outputs=1000, inputs=300)
    x = RNG.normal(size=(batch, 300)).astype(np.float32)
    results = []
    for threads in (1, 2, 3, 7, 40):
        y = floats(batch, 1000)
        matrix.multiply(x, y, None, fast, threads)
        results.append(y)
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


@pytest.mark.parametrize("name", native.instruction_sets())
@pytest.mark.parametrize("bits", [1, 2])
def test_a_row_gives_the_same_bits_in_any_batch(name, bits):
    codes = pack(random_codes(RNG, (150, 1100), bits), bits)
    matrix = native.PackedMatrix(codes, ONE, 1100, bits, name)
    x = RNG.normal(size=(40, 1100)).astype(np.float32)
    for fast in (False, True):
        whole, alone = floats(40, 150), floats(1, 150)
        matrix.multiply(x, whole, None, fast, 2)
        for row in range(40):
            matrix.multiply(x[row : row + 1], alone, None, fast, 1)
            np.testing.assert_array_equal(whole[row], alone[0])


def test_images_too_large_with_their_padding_are_refused():
    far = 2**22
    filters = make_filters(padding=(far, far), dilation=(far, far))
    with pytest.raises(ValueError, match="too many values"):
        filters.convolve(floats(1, 1, 1, 4), floats(1, 1, 1, 8), None, True, 1)


@pytest.mark.parametrize("fast", [False, True])
def test_an_empty_image_with_padding_is_all_padding(fast):
    filters = make_filters(padding=(2, 1))
    assert filters.output_size(0, 4) == (2, 4)
    y = np.ones((1, 2, 4, 8), np.float32)
    filters.convolve(floats(1, 0, 4, 4), y, None, fast, 1)
    assert not y.any()


def test_several_python_threads_may_call_at_once():
    matrix = make_matrix(outputs=500, inputs=400)
    filters = make_filters()
    x, image = RNG.normal(size=(4, 400)).astype(np.float32), np.ones((1, 9, 9, 4), np.float32)
    expected, expected_image = floats(4, 500), floats(1, 9, 9, 8)
    matrix.multiply(x, expected, None, False, 1)
    filters.convolve(image, expected_image, None, True, 1)
    wrong = []

    def work():
        for _ in range(100):
            y, y_image = floats(4, 500), floats(1, 9, 9, 8)
            matrix.multiply(x, y, None, False, 3)
            filters.convolve(image, y_image, None, True, 3)
            if not (np.array_equal(y, expected) and np.array_equal(y_image, expected_image)):
                wrong.append(1)

    workers = [threading.Thread(target=work) for _ in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


FORK = """
import os, sys, threading
import numpy as np
import binaryrelax_native as native

codes = np.arange(600 * 50, dtype=np.uint32).astype(np.uint8).reshape(600, 50)
matrix = native.PackedMatrix(codes, np.ones(1, np.float32), 400, 1)
x = np.linspace(-1, 1, 800, dtype=np.float32).reshape(2, 400)

def product():
    y = np.zeros((2, 600), np.float32)
    matrix.multiply(x, y, None, False, 4)
    return y

expected = product()
stop = threading.Event()
def keep_busy():
    while not stop.is_set():
        product()
busy = threading.Thread(target=keep_busy)
busy.start()
for _ in range(20):
    child = os.fork()
    if child == 0:
        os._exit(0 if all(np.array_equal(product(), expected) for _ in range(5)) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
stop.set()
busy.join()
assert np.array_equal(product(), expected)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_works_even_if_the_parent_was_busy():
    done = subprocess.run(
        [sys.executable, "-c", FORK], timeout=60, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_process_ends_while_its_threads_sleep():
    code = (
        "import numpy as np, binaryrelax_native as n;"
        "m = n.PackedMatrix(np.zeros((64, 1), np.uint8), np.ones(1, np.float32), 8, 1);"
        "m.multiply(np.ones((9, 8), np.float32), np.ones((9, 64), np.float32), None, True, 4)"
    )
    done = subprocess.run([sys.executable, "-c", code], timeout=60, check=False)
    assert done.returncode == 0, signal.strsignal(-done.returncode)


def test_instruction_sets_start_with_the_portable_one():
    assert native.instruction_sets()[0] == "portable"
    assert native.__version__
