"""Damaged and forged files: refused with one line, or nothing has changed. See mutants.py."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from tests.packed.archive import Archive
from tests.packed.mutants import FINE, KINDS, judge, mutant, originals

ROOT = Path(__file__).parents[2]
NUM_MUTANTS = 20_000


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return originals(tmp_path_factory.mktemp("originals"))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("mutants") / "mutant"


@given(kind=st.sampled_from(list(KINDS)), seed=st.integers(0, 2**32))
@settings(max_examples=400)
def test_mutants_are_refused_or_nothing_has_changed(kind, seed, files, path):
    original, content = mutant(kind, seed, files)
    assert judge(kind, original, content, path) in FINE


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_mutation_makes_files_that_are_refused(kind, files, path):
    outcomes = set()
    for seed in range(12):
        original, content = mutant(kind, seed, files)
        assert mutant(kind, seed, files)[1] == content  # a failure can be looked at again
        outcomes.add(judge(kind, original, content, path))
    assert "refused" in outcomes and outcomes <= set(FINE)


def test_untouched_and_newly_signed_files_are_the_same(files, path):
    for original in files.values():
        assert judge("flip_bits", original, original.content, path) == "same"
        assert Archive.of(original.content).signed() == original.content
        assert len(original.content) < 5000


def test_files_of_other_networks_are_refused_for_their_architecture(files, path):
    for name, original in files.items():
        other = files["tied" if name != "tied" else "folded"]
        assert judge("transplant", original, other.content, path) == "refused"


def test_the_judge_notices_what_is_wrong(files, path):
    """A file with one weight flipped and digests made right is taken for damaged: not refused."""
    original = files["binary"]
    archive = Archive.of(original.content)
    codes = archive.tensors["7.codes"]
    codes.content = bytes([codes.content[0] ^ 1]) + codes.content[1:]
    forged = archive.signed()
    assert judge("flip_bits", original, forged, path) == "changed content accepted"
    assert judge("forge_layer", original, forged, path) == "sound"


@pytest.mark.slow
def test_twenty_thousand_mutants_neither_crash_nor_deceive_nor_take_memory(tmp_path):
    """In a process of its own, whose address space may grow by 256 MB."""
    out = tmp_path / "packed.json"
    arguments = ["--mutants", str(NUM_MUTANTS), "--out", str(out)]
    done = subprocess.run(
        [sys.executable, "-m", "tools.fuzz_packed", *arguments],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=280,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    counts = json.loads(out.read_text())
    assert counts["failures"] == [] and set(counts["outcomes"]) <= set(FINE)
    assert sum(counts["outcomes"].values()) == NUM_MUTANTS
    assert counts["longest_seconds"] < 2 and counts["memory_grown_mb"] < 128
