"""The nearest relative of our ternary projection, to compare with: torchao's LSBQuantizer."""

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor

from binaryrelax.lab.bench.timing import Say


def lsbq_methods(say: Say) -> dict[str, Callable[[Tensor], Tensor]]:
    """Its least-squares ternary: whole tensor, one row of a matrix, and its default.

    None of them if torchao is not installed, and `say` is told.
    """
    try:
        from torchao.prototype.parq.quant.lsbq import LSBQuantizer
    except ImportError:
        say("torchao is not installed: its rows are left out (pip install --no-deps torchao)")
        return {}
    optimal, simple = LSBQuantizer(optimal=True), LSBQuantizer()
    return {
        "torchao LSBQ optimal": lambda w: optimal.quantize(w, 0)[0],
        "torchao LSBQ optimal, dim=-1": lambda w: optimal.quantize(w[None], 0, dim=-1)[0][0],
        "torchao LSBQ default": lambda w: simple.quantize(w, 0)[0],
    }


@contextmanager
def quiet_torchao() -> Iterator[None]:
    """Without its warnings inside, and its log of the extensions that it did not find."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
