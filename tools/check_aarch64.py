"""Builds the native runtime for 64-bit ARM and compares what it gives with this machine's.

    python -m tools.check_aarch64 --out results/fuzz/aarch64.json

Random networks, the trained networks of this repository and forged files run under qemu-user. Fast
mode must give the same bits as here, unless the network needs functions of the C library such as
exp, whose last bits differ; exact mode the same numbers but for rounding; and forged files the same
verdicts. Needs CMake, a compiler for aarch64 and qemu-user; says so where they are not
there. Exit status 1 if something differs, 2 if something is missing.
"""

from __future__ import annotations

import argparse
import json
import shutil
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import binaryrelax_native
import numpy as np
import torch
from native.tests.network_files import networks
from native.tests.network_mutants import KINDS, mutant
from tests.export.random_programs import Case
from tests.packed.archive import Archive
from tests.packed.random_networks.case import quiet

from binaryrelax import export_native, load_packed, pack
from binaryrelax_lab.models import build_network

ROOT = Path(__file__).parents[1]
COMPILER, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64"
CPUS = {"portable": "cortex-a53", "dotprod": "max"}  # what qemu plays for an instruction set
TRAINED = {
    "cifar10-resnet20-binary-tuned": "resnet20",
    "cifar10-resnet20-ternary-tuned": "resnet20",
}
ROUNDINGS = 2e-5  # of the largest output: exact mode sums in another order
STEPS = 0.02  # of the largest output: where a last bit makes a byte another one
FROM_LIBRARY = {"silu", "gelu", "gelu_tanh", "sigmoid", "tanh", "softmax"}
Files = Iterator[tuple[str, Path, list[np.ndarray]]]


def main() -> int:
    """Compares, and writes what was found."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=100, metavar="N", help="of random networks")
    parser.add_argument("--files", type=int, default=1000, metavar="N", help="that are forged")
    parser.add_argument("--out", type=Path, metavar="FILE")
    options = parser.parse_args()
    if lacking := missing():
        print(
            f"check_aarch64: {', '.join(lacking)} not found; on Debian: "
            "apt-get install cmake g++ g++-aarch64-linux-gnu qemu-user",
            file=sys.stderr,
        )
        return 2
    found = compared(options.count, options.files)
    text = json.dumps(found, indent=2) + "\n"
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text)
    else:
        print(text)
    return 1 if found["failures"] else 0


def missing() -> list[str]:
    """The programs that are not installed."""
    return [name for name in ("cmake", "c++", COMPILER, EMULATOR) if not shutil.which(name)]


def built(folder: Path, *options: str) -> Path:
    """The folder of the drivers, built for one kind of CPU.

    Raises:
        RuntimeError: they cannot be built.
    """
    configure = ["cmake", "-S", ROOT / "native", "-B", folder, "-DBINARYRELAX_DRIVERS=ON", *options]
    for command in (configure, ["cmake", "--build", folder, "--parallel", "2"]):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{folder} cannot be built: {done.stderr[-2000:]}")
    return folder


def compared(count: int, files: int) -> dict[str, Any]:
    """What came of networks and forged files."""
    start = time.monotonic()
    here = built(ROOT / "native" / "build" / "drivers")
    there = built(
        ROOT / "native" / "build" / "aarch64",
        "-DCMAKE_SYSTEM_NAME=Linux",
        "-DCMAKE_SYSTEM_PROCESSOR=aarch64",
        f"-DCMAKE_CXX_COMPILER={COMPILER}",
        "-DCMAKE_EXE_LINKER_FLAGS=-static",
    )
    found = Comparison(there)
    with TemporaryDirectory() as folder:
        for name, path, inputs in [*random_networks(count, Path(folder)), *trained(Path(folder))]:
            found.add(name, path, inputs)
    wrong_verdicts, verdicts = other_verdicts(files, here, there)
    return {
        "instruction_sets": list(found.sets),
        "compared_with": binaryrelax_native.instruction_sets(),
        "runs": dict(found.runs),
        "largest_differences": dict(found.largest),
        "forged_files": verdicts,
        "failures": found.failures + wrong_verdicts,
        "compiler": version_of(COMPILER),
        "emulator": version_of(EMULATOR),
        "seconds": round(time.monotonic() - start, 1),
    }


def version_of(program: str) -> str:
    """What it calls itself."""
    done = subprocess.run([program, "--version"], capture_output=True, text=True)
    return done.stdout.partition("\n")[0]


class Comparison:
    """Networks under the emulator and here."""

    def __init__(self, folder: Path) -> None:
        self.driver = folder / "run_network"
        listed = self._emulated("dotprod")
        self.sets = listed.stdout.decode().split()
        self.runs: Counter[str] = Counter()
        self.failures: list[str] = []
        self.largest: Counter[str] = Counter()  # differences, by kind of run

    def _emulated(self, chosen: str, *arguments: str | Path, given: bytes = b"") -> Any:
        command = [EMULATOR, "-cpu", CPUS[chosen], self.driver, *arguments]
        return subprocess.run(command, input=given, capture_output=True, timeout=600)

    def add(self, name: str, path: Path, inputs: list[np.ndarray]) -> None:
        """Runs a network with every instruction set."""
        expected = self._expected(name, path, inputs)
        given, kind = b"".join(x.tobytes() for x in inputs), kind_of(path)
        for chosen in self.sets:
            done = self._emulated(chosen, path, chosen, given=given)
            self.runs[f"{kind}, {chosen}"] += 1
            if done.returncode:
                self.failures.append(f"{name}, {chosen}: {done.stderr.decode()[-300:]}")
            elif problem := self._problem(kind, np.frombuffer(done.stdout, "<f4"), expected):
                self.failures.append(f"{name}, {chosen}: {problem}")

    def _expected(self, name: str, path: Path, inputs: list[np.ndarray]) -> np.ndarray:
        """What this machine's instruction sets give; in fast mode all the same."""
        found = []
        for chosen in binaryrelax_native.instruction_sets():
            outputs = binaryrelax_native.load(path, instruction_set=chosen)(*inputs)
            parts = outputs if isinstance(outputs, tuple) else (outputs,)
            found.append(np.concatenate([part.ravel() for part in parts]))
        is_fast = binaryrelax_native.load(path).mode == "fast"
        if is_fast and any(not np.array_equal(found[0], other) for other in found):
            self.failures.append(f"{name}: this machine's instruction sets differ")
        return found[0]

    def _problem(self, kind: str, found: np.ndarray, expected: np.ndarray) -> str:
        if found.shape != expected.shape:
            return f"{found.size} numbers, not {expected.size}"
        if kind == "fast":
            different = int((found.view("u4") != expected.view("u4")).sum())
            return f"{different} of {found.size} numbers have other bits" if different else ""
        error = float(np.abs(found - expected).max() / max(np.abs(expected).max(), 1e-30))
        self.largest[kind] = max(self.largest[kind], float(f"{error:.3g}"))
        allowed = ROUNDINGS if kind == "exact" else STEPS
        return "" if error <= allowed else f"{error:.3g} of the largest output"


def kind_of(path: Path) -> str:
    """The mode of a network, and whether functions of the C library decide about its bits."""
    program = Archive.of(path.read_bytes()).manifest["program"]
    used = {operation["op"] for operation in program["operations"]}
    used |= {op["activation"]["kind"] for op in program["operations"] if "activation" in op}
    mode: str = program["mode"]
    return f"{mode}, with exp" if mode == "fast" and used & FROM_LIBRARY else mode


def random_networks(count: int, folder: Path) -> Files:
    """Those of ``tools.fuzz_programs``, in both modes, with inputs for a few images."""
    for seed in range(count):
        with quiet():
            case = Case(seed)
            model, weights = case.in_q()
            packed = pack(model, weights, fold_batchnorm=case.fold_batchnorm)
            inputs = case.inputs(case.batches[0])
            for mode in ("exact", "fast"):
                path = folder / f"{seed}.{mode}.brx"
                given = {"calibration": [inputs]} if mode == "fast" and case.is_calibrated else {}
                export_native(packed, case.inputs(2), path, mode=mode, **given)
                yield f"seed {seed}, {mode}", path, [x.numpy() for x in inputs]


def trained(folder: Path) -> Files:
    """The CIFAR-10 networks of the repository."""
    for name, architecture in TRAINED.items():
        network = build_network(architecture, 3, 10)
        packed = load_packed(ROOT / "networks" / f"{name}.safetensors", network).eval()
        images = torch.randn(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))
        for mode in ("exact", "fast"):
            path = folder / f"{name}.{mode}.brx"
            given = {"calibration": images} if mode == "fast" else {}
            export_native(packed, images, path, mode=mode, **given)
            yield f"{name}, {mode}", path, [images.numpy()]


@dataclass
class Judge:
    """A driver's verdicts on files."""

    command: list[str | Path]

    def verdicts(self, contents: list[bytes]) -> list[str]:
        """A line for each file."""
        stream = b"".join(struct.pack("<I", len(content)) + content for content in contents)
        done = subprocess.run(self.command, input=stream, capture_output=True, timeout=1800)
        return done.stdout.decode(errors="replace").splitlines()


def other_verdicts(count: int, here: Path, there: Path) -> tuple[list[str], dict[str, int]]:
    """Forged files of which the drivers say different things, and how many of each verdict."""
    kinds, files = list(KINDS), networks()
    jobs = [(kinds[i % len(kinds)], i // len(kinds)) for i in range(count)]
    contents = [mutant(kind, seed, files)[1] for kind, seed in jobs]
    expected = Judge([here / "fuzz_network_files"]).verdicts(contents)
    emulated = [EMULATOR, "-cpu", CPUS["dotprod"], there / "fuzz_network_files"]
    found = Judge(emulated).verdicts(contents)
    if len(found) != len(expected):
        kind, seed = jobs[min(len(found), len(jobs) - 1)]
        return [f"{kind} {seed}: ended the program"], {}
    different = [
        f"{kind} {seed}: {theirs}, here {ours}"
        for (kind, seed), ours, theirs in zip(jobs, expected, found, strict=True)
        if ours != theirs
    ]
    return different, dict(Counter(line.partition(":")[0].split()[0] for line in found))


if __name__ == "__main__":
    sys.exit(main())
