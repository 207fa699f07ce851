"""What the native runtime must give for a random network.

``judge(seed, folder)`` packs ``Case(seed)``, exports it in both modes and runs both files with
every instruction set of this CPU and several counts of threads. Each stage ends in one of

* ``agrees``: the outputs are those of the float network, as near as the mode promises;
* ``refused``: an error of ours, one line; these networks are legal, so it is a failure, too;
* ``differs``: other outputs, or other bits where they must be the same;
* ``crash``: any other error.

How near is said by the network itself: what rounding does to a network depends on what follows.
Exact outputs may be as far from float64 as torch's own in float32 are, eight times, and a few
roundings. Fast ones may be as far as three times what rounding every value to 8 bits does; where
ranges are calibrated, what rounding to these ranges does.
"""

import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import binaryrelax_native
import numpy as np
import torch
from safetensors import safe_open
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from binaryrelax import certify, export_native, pack
from binaryrelax.export.native import checked_program
from tests.export.native_cases import RoundedInterpreter
from tests.export.random_programs.case import Case
from tests.packed.random_networks.case import quiet
from tests.packed.random_networks.judging import Differs, Record, Refused

THREADS = (1, 2, 3)
ROUNDINGS = 3e-6  # of the largest output: what sums in another order may differ by
STEP = 0.005  # of the largest output: a rounding to 8 bits at the very end
Outputs = list[list[Tensor]]  # by batch


def judge(seed: int, folder: Path) -> dict:
    """What came of every stage: outcome, and a line about all that do not agree."""
    start = time.monotonic()
    with quiet():
        case = Case(seed)
        record = Record(case)
        with suppress(Refused):
            errors = _judge(case, record, folder)
    seconds = round(time.monotonic() - start, 2)
    found = errors if all(f["outcome"] == "agrees" for f in record.stages.values()) else {}
    return {
        "seed": seed, "traits": case.traits, "stages": record.stages, "errors": found,
        "seconds": seconds,
    }  # fmt: skip


def _judge(case: Case, record: Record, folder: Path) -> dict[str, list[float]]:
    with record.stage("pack"):
        model, weights = case.in_q()
        truth = Truth(case, model)
        packed = pack(model, weights, fold_batchnorm=case.fold_batchnorm)
    errors = {}
    for mode in ("exact", "fast"):
        path = folder / f"{mode}.brx"
        calibration = {}
        if mode == "fast" and case.is_calibrated:
            calibration = {"calibration": truth.batches}
        with suppress(Refused):
            with record.stage(f"export {mode}"):
                export_native(packed, case.inputs(2), path, mode=mode, **calibration)
                if not (certificate := certify(path, against=packed)).ok:
                    raise Differs(f"certificate: {certificate.reason}")
            with record.stage(mode, refusable=False):
                if mode == "exact":
                    truth.leave_out_what_is_refused(path)
                if calibration:
                    truth.allow_what_ranges_cut_off(packed, path)
                errors[mode] = truth.check(path, mode)
    return errors


class Truth:
    """What the network gives, and how far rounding may lead away from it."""

    def __init__(self, case: Case, model: nn.Module) -> None:
        self.case = case
        self.batches = [case.inputs(rows) for rows in case.batches]
        self._add_larger_images(case, model)
        own = outputs(model, self.batches)
        with _rounded_values(model, 8):
            rounded = outputs(model, self.batches)
        self.exact = outputs(model.double(), [tuple(x.double() for x in b) for b in self.batches])
        model.float()
        columns = zip(*self.exact, strict=True)
        self.sizes = [max(float(t.abs().max()) for t in leaves) for leaves in columns]
        self.allowed = {
            "exact": ROUNDINGS + 8 * self.error(own),
            "fast": STEP + 3 * self.error(rounded),
        }

    def _add_larger_images(self, case: Case, model: nn.Module) -> None:
        """Images of another size, where the network takes them."""
        inputs = case.inputs(1, more=3)
        with suppress(RuntimeError):
            outputs(model, [inputs])
            self.batches.append(inputs)

    def leave_out_what_is_refused(self, path: Path) -> None:
        """Larger images, where the program is one for images of the example's size only."""
        try:
            binaryrelax_native.load(path).memory(*(tuple(x.shape) for x in self.batches[-1]))
        except ValueError:
            count = len(self.case.batches)
            if len(self.batches) == count:
                raise
            del self.batches[count:], self.exact[count:]
            self.case.note("of one size")

    def allow_what_ranges_cut_off(self, packed: nn.Module, path: Path) -> None:
        """Calibrated ranges end before the largest numbers; an interpreter says what that makes."""
        with safe_open(path, "pt") as file:
            ranges = json.loads(file.metadata()["binaryrelax"])["program"]["ranges"]
        reference = RoundedInterpreter(checked_program(packed, self.case.inputs(2)), ranges)
        with torch.no_grad():
            cut_off = [tuple(reference(*batch)) for batch in self.batches]
        self.allowed["fast"] = max(self.allowed["fast"], STEP + 3 * self.error(cut_off))

    def error(self, found: Outputs) -> float:
        """The largest difference, as a share of the largest number of the output."""
        worst = 0.0
        for batch, expected in zip(found, self.exact, strict=True):
            for a, b, size in zip(batch, expected, self.sizes, strict=True):
                if a.shape != b.shape:
                    raise Differs(f"shape {tuple(a.shape)}, not {tuple(b.shape)}")
                difference = float((a.double() - b).abs().max()) / max(size, 1e-30)
                worst = max(worst, math.inf if math.isnan(difference) else difference)
        return worst

    def check(self, path: Path, mode: str) -> list[float]:
        """The largest error of all instruction sets, and the allowed one.

        Raises:
            Differs: it is larger than that, or bits differ where they must not.
        """
        worst, first = 0.0, None
        for name in binaryrelax_native.instruction_sets():
            found = [
                self._run(binaryrelax_native.load(path, threads=count, instruction_set=name))
                for count in THREADS
            ]
            if any(not _same_bits(found[0], other) for other in found[1:]):
                raise Differs(f"{name}: other bits with another number of threads")
            first = first or found[0]
            if mode == "fast" and not _same_bits(first, found[0]):
                raise Differs(f"{name}: other bits than portable, {_difference(first, found[0])}")
            error = self.error(found[0])
            if not error <= self.allowed[mode]:
                allowed = self.allowed[mode]
                raise Differs(f"{name}: {error:.3g} of the largest output, {allowed:.3g} allowed")
            worst = max(worst, error)
        return [worst, self.allowed[mode]]

    def _run(self, network: binaryrelax_native.Network) -> Outputs:
        """Twice, and the second time with what the first has left in memory."""
        found = [_called(network, batch) for batch in self.batches]
        if not _same_bits(found, [_called(network, batch) for batch in self.batches]):
            raise Differs(f"{network.instruction_set}: other bits when called again")
        return found


@torch.no_grad()
def outputs(model: nn.Module, batches: list[tuple[Tensor, ...]]) -> Outputs:
    """What a network gives for each batch; it may write to its inputs."""
    return [[leaf.clone() for leaf in tree_leaves(model(*(x.clone() for x in b)))] for b in batches]


def _called(network: Callable, batch: tuple[Tensor, ...]) -> list[Tensor]:
    found = network(*(x.numpy() for x in batch))
    return [torch.from_numpy(y) for y in (found if isinstance(found, tuple) else (found,))]


@contextmanager
def _rounded_values(model: nn.Module, bits: int) -> Iterator[None]:
    """Every module's inputs and outputs as multiples of a step, one step for each image."""
    modules = [m for m in model.modules() if m is not model]
    handles = [
        *(
            m.register_forward_pre_hook(lambda _, x: tuple(_rounded(i, bits) for i in x))
            for m in modules
        ),
        *(m.register_forward_hook(lambda _, x, y: _rounded(y, bits)) for m in modules),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _rounded(x: Tensor, bits: int) -> Tensor:
    step = x.abs().amax(tuple(range(1, x.ndim)), keepdim=True) / (2 ** (bits - 1) - 1)
    return torch.where(step > 0, (x / step).round() * step, x)


def _same_bits(a: Outputs, b: Outputs) -> bool:
    return all(np.array_equal(x.numpy().view("u4"), y.numpy().view("u4")) for x, y in _pairs(a, b))


def _difference(a: Outputs, b: Outputs) -> str:
    shares = [float((x - y).abs().max() / x.abs().max().clamp_min(1e-30)) for x, y in _pairs(a, b)]
    return f"by {max(shares):.2g} of the largest output"


def _pairs(a: Outputs, b: Outputs) -> Iterator[tuple[Tensor, Tensor]]:
    for left, right in zip(a, b, strict=True):
        yield from zip(left, right, strict=True)
