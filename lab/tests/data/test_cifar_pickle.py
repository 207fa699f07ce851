import os
import pickle
import subprocess

import numpy as np
import pytest
from lab.tests.support import cifar_files
from lab.tests.support.errors import one_line

from binaryrelax_lab.data.cifar_files import CIFAR10
from binaryrelax_lab.data.cifar_pickle import unpickle_batch


class Asking:
    """Has a function called while it is unpickled."""

    def __init__(self, function, *arguments):
        self.request = function, arguments

    def __reduce__(self):
        return self.request


def hostile_pickles(marker):
    """By name; each would leave the file `marker` if it were obeyed."""
    code = f"open({str(marker)!r}, 'w').close()"
    yield "system", pickle.dumps({b"data": Asking(os.system, f"touch {marker}")}, protocol=2)
    yield "eval", pickle.dumps({b"data": Asking(eval, code)}, protocol=0)
    yield "exec", pickle.dumps(Asking(exec, code), protocol=4)
    yield "process", pickle.dumps([Asking(subprocess.call, ["touch", str(marker)])])
    yield "numpy's own eval", b"cnumpy.f2py.crackfortran\nmyeval\n(V" + code.encode() + b"\ntR."
    yield "dotted name", b"\x80\x04\x8c\x05numpy\x8c\x11ndarray.__class__\x93."
    yield "copyreg", b"ccopyreg\n_reconstructor\n(cbuiltins\nobject\ncbuiltins\nobject\nNtR."
    yield "attribute", b"cbuiltins\ngetattr\n(cnumpy\nndarray\nV__class__\ntR."


def test_hostile_pickles_are_refused_and_not_obeyed(tmp_path):
    marker = tmp_path / "obeyed"
    for kind, content in hostile_pickles(marker):
        with pytest.raises(ValueError, match="not a pickle of CIFAR images: it asks for") as caught:
            unpickle_batch(content)
        one_line(caught)
        assert not marker.exists(), kind


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"rubbish",
        b"\x80\x02}.",  # no pixels
        b"\x80\x02K\x01.",  # no dictionary
        b"\x80\x02}U\x04dataK\x07s.",  # pixels that are a number
        b"\x80\x02}U\x04datacnumpy\nndarray\ns.",
        b"\x80\x02}U\x04datacnumpy.core.multiarray\n_reconstruct\ns.",
        b"\x80\x02}U\x04datacnumpy.core.multiarray\n_reconstruct\n)Rs.",  # without a state
        b"c_codecs\nencode\n(Vabc\nVrot13\ntR.",
        b"c_codecs\nencode\n(N}V__new__\nK\x01s\x86b.",  # changes what it may use
        b"cnumpy\ndtype\n(N}V__init__\nK\x01s\x86b.",
        b"\x80\x02" + b"(" * 100_000,
        b"Ppersistent\n.",
    ],
)
def test_rubbish_pickles_are_refused_in_one_line(content):
    with pytest.raises(ValueError, match="not a pickle of CIFAR images") as caught:
        unpickle_batch(content)
    one_line(caught)


def test_a_forged_pickle_changes_nothing_for_the_next_one():
    good = cifar_files.python_file("cifar10", "test_batch")
    before = unpickle_batch(good)[b"data"]
    for name in (b"_codecs\nencode", b"numpy\ndtype", b"numpy.core.multiarray\n_reconstruct"):
        with pytest.raises(ValueError):
            unpickle_batch(b"c" + name + b"\n(N}V__doc__\nVforged\ns\x86b.")
    assert np.array_equal(unpickle_batch(good)[b"data"], before)


@pytest.mark.parametrize("protocol", range(5))
def test_pickles_of_newer_pythons_are_read_too(protocol):
    images = np.arange(2 * 3072, dtype=np.uint8).reshape(2, 3072)
    for pixels in (images, np.asfortranarray(images)):
        content = pickle.dumps({b"data": pixels, b"labels": [1, 2]}, protocol)
        assert np.array_equal(unpickle_batch(content)[b"data"], images)


def test_other_arrays_are_refused():
    for pixels in (np.zeros((2, 3072), np.float32), np.array([None, 1], dtype=object)):
        with pytest.raises(ValueError, match="not a pickle of CIFAR images"):
            unpickle_batch(pickle.dumps({b"data": pixels}, protocol=2))


@pytest.mark.parametrize("labels", [None, [1], [1, "2"], "ab"])
def test_labels_must_be_as_many_whole_numbers_as_images(labels):
    content = pickle.dumps({b"data": np.zeros((2, 3072), np.uint8), b"labels": labels}, protocol=2)
    with pytest.raises(ValueError, match="labels"):
        CIFAR10.layouts[1].decode(content)
