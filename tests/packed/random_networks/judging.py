"""What packing, saving and exporting a network must give.

``judge(seed, folder)`` takes ``Case(seed)`` the whole way: pack, save, certify, load, and with
``export=True`` to every engine with the engine's own defaults. Each stage of the way ends in one of

* ``agrees``: the outputs are those of the float network, as near as the stage promises;
* ``refused``: an error of ours, one line;
* ``differs``: other outputs, or none of the right shape and type;
* ``crash``: any other error.
"""

import copy
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import nn

import binaryrelax
from binaryrelax import certify, load_packed, pack, save_packed, set_mode
from binaryrelax.export import export_openvino
from binaryrelax.packed import PackedLayer
from tests.packed.cases import same_snapshot, same_tensor, snapshot
from tests.packed.random_networks.case import Case, quiet
from tests.packed.random_networks.engines import EXPORTS
from tests.packed.random_networks.truth import Outputs, Truth, outputs

FINE = ("agrees", "refused")  # other outcomes are failures
OURS = str(Path(binaryrelax.__file__).parent)


class Differs(Exception):
    """A stage gave something else than it must."""


class Refused(Exception):
    """A stage was refused, and so is all that would follow."""


@dataclass
class Record:
    """What came of each stage."""

    case: Case
    stages: dict[str, dict[str, str]] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str, refusable: bool = True) -> Iterator[None]:
        """Notes how what is inside ends.

        Raises:
            Refused: it ends in an error.
        """
        try:
            yield
            self.stages[name] = {"outcome": "agrees"}
        except Differs as difference:
            self.stages[name] = {"outcome": "differs", "detail": str(difference)}
        except Exception as error:  # whatever it is, it is what the fuzzing looks for
            is_refusal = refusable and _is_ours(error)
            detail = str(error) if is_refusal else f"{type(error).__name__}: {error}"
            outcome = "refused" if is_refusal else "crash"
            self.stages[name] = {"outcome": outcome, "detail": " ".join(detail.split())[:600]}
            raise Refused(name) from error


def _is_ours(error: Exception) -> bool:
    """Whether it is a refusal: raised by the library itself, of the right type, in one line."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = trace.tb_frame.f_code.co_filename if trace is not None else ""
    is_line = "\n" not in str(error) and 20 <= len(str(error)) <= 1000
    return isinstance(error, (ValueError, ImportError)) and place.startswith(OURS) and is_line


def judge(seed: int, folder: Path, *, export: bool = True) -> dict:
    """What came of every stage: outcome, and a line about all that do not agree."""
    start = time.monotonic()
    with quiet():
        case = Case(seed)
        record = Record(case)
        with suppress(Refused):
            _judge(case, record, folder, export)
    seconds = round(time.monotonic() - start, 2)
    return {"seed": seed, "traits": case.traits, "stages": record.stages, "seconds": seconds}


def _judge(case: Case, record: Record, folder: Path, export: bool) -> None:
    with record.stage("select"):
        model, weights = case.in_q()
    truth = Truth(case)
    before = snapshot(model.train(case.trains))
    try:
        with record.stage("pack"):
            packed = pack(model, weights, fold_batchnorm=case.fold_batchnorm)
    finally:
        if record.stages["pack"]["outcome"] == "refused" and not same_snapshot(
            snapshot(model), before
        ):
            record.stages["pack"] = {"outcome": "differs", "detail": "a refused model has changed"}
    with record.stage("exact", refusable=False):
        exact = outputs(packed, case.batches())
        _check(exact, truth.own, truth.error(exact), truth.allowed())
    with record.stage("fast", refusable=False):
        fast = outputs(set_mode(packed, "fast"), case.batches())
        _check(fast, truth.own, truth.error(fast), truth.allowed("int8"))
    set_mode(packed, "exact")
    _judge_file(case, record, packed, (exact, fast), folder / "net.safetensors")
    _judge_copies(case, record, packed, exact)
    if export:  # a network that has just been loaded, as users do it, and has not run
        loaded = load_packed(folder / "net.safetensors", case.make(weights_seed=1))
        for name, act in EXPORTS.items():
            _judge_export(case, record, truth, (loaded, name, act), folder)
        with record.stage("after export", refusable=False):
            _check_same(outputs(loaded, case.batches()), exact)
    with record.stage("bfloat16", refusable=False):
        found = outputs(packed.bfloat16(), case.batches(torch.bfloat16))
        _check(found, truth.bfloat16, truth.error(found), truth.allowed("bfloat16"))


def _judge_file(
    case: Case, record: Record, packed: nn.Module, expected: tuple[Outputs, Outputs], path: Path
) -> None:
    with record.stage("save"):
        save_packed(packed, path, dense=case.dense)
    with record.stage("certify"):
        certificate = certify(path)
        names = {name for name, m in packed.named_modules() if isinstance(m, PackedLayer)}
        if not certificate.ok or {layer.name for layer in certificate.layers} != names:
            raise Differs(f"certificate: {certificate.reason}")
        if any(layer.distinct_values > len(layer.codebook) for layer in certificate.layers):
            raise Differs("more values than levels")
    with record.stage("load"):
        loaded = load_packed(path, case.make(weights_seed=1))
        _check_same(outputs(loaded, case.batches()), expected[0])
        _check_same(outputs(set_mode(loaded, "fast"), case.batches()), expected[1])
    with suppress(Refused), record.stage("load, meta"):  # where it is refused, the rest goes on
        loaded = load_packed(path, case.make(weights_seed=1, device="meta"))
        _check_same(outputs(loaded, case.batches()), expected[0])


def _judge_copies(case: Case, record: Record, packed: nn.Module, expected: Outputs) -> None:
    with record.stage("state dict", refusable=False):
        model, weights = case.in_q(weights_seed=2)
        other = pack(model, weights, fold_batchnorm=case.fold_batchnorm)
        other.load_state_dict(packed.state_dict())
        _check_same(outputs(other, case.batches()), expected)
    with record.stage("deepcopy", refusable=False):
        _check_same(outputs(copy.deepcopy(packed), case.batches()), expected)


def _judge_export(case: Case, record: Record, truth: Truth, export: tuple, folder: Path) -> None:
    model, name, (write, run, options, roundings) = export
    path = folder / ("net.xml" if write is export_openvino else "net.onnx")
    try:
        with record.stage(name):
            write(model, case.inputs(case.example_rows), path, **options)
        with record.stage(name, refusable=False):
            found = run(path, case.batches())
            _check(found, truth.own, truth.error(found), truth.allowed(*roundings))
    except Refused:
        pass  # the next export may do


def _check(found: Outputs, like: Outputs, error: float, allowed: float) -> None:
    """Whether outputs look like others and are near the truth."""
    for mine, theirs in zip(found, like, strict=True):
        looks = [[(str(t.dtype), tuple(t.shape)) for t in batch] for batch in (mine, theirs)]
        if looks[0] != looks[1]:
            raise Differs(f"outputs are {looks[0]}, not {looks[1]}")
    if not error <= allowed:
        raise Differs(f"by {error:.2g} of the largest output; {allowed:.2g} allowed")


def _check_same(found: Outputs, expected: Outputs) -> None:
    for mine, theirs in zip(found, expected, strict=True):
        for a, b in zip(mine, theirs, strict=True):
            if not same_tensor(a, b):
                size = max(float(b.double().abs().max()), 1e-30)
                error = float((a.double() - b.double()).abs().max()) if a.shape == b.shape else 1
                raise Differs(f"not the same bits: by {error / size:.2g} of the largest output")


def reason(detail: str) -> str:
    """A refusal without names, numbers and what the model's own code said."""
    head, parenthesis, rest = detail.partition("(")
    is_whole = detail.count("(") == detail.count(")")  # long ones are cut
    text = f"{head}(…){rest.rpartition(')')[2] if is_whole else ''}" if parenthesis else head
    text = re.sub(r"'[^']*'|/\S+", "'…'", text)
    text = re.sub(r"\b[A-Z]\w*(?:\([^)]*\))?", "X", text)
    return re.sub(r"\d+(\.\d+)?(e[+-]?\d+)?", "N", text)[:160]
