"""What random programs and damaged files did, as tables."""

import json

import pytest

from binaryrelax_lab.report.figures import Evidence
from binaryrelax_lab.report.figures.packed_checks import (
    ARM,
    PROGRAM_FILES,
    PROGRAMS,
    damaged_programs,
    on_arm,
    random_programs,
)

FILES = {
    "files": 20_000,
    "outcomes": {"refused": 19_000, "sound": 1000},
    "damage": {"flip_bits": {"refused": 10_000}},
    "forgery": {"forge_header": {"refused": 5000}},
    "lies": {"forge_wiring": {"refused": 4000, "sound": 1000}},
    "failures": [],
    "longest_seconds": 1.234,
    "memory_limit_mb": 512,
    "machine": "a CPU",
}
RANDOM = {
    "networks": 2000,
    "agree_everywhere": 2000,
    "stages": {"export exact": {"agrees": 2000}, "fast": {"agrees": 2000}},
    "failures": [],
    "errors": {"exact": {"median": 2e-7, "largest": 3e-6}, "fast": {}},
    "instruction_sets": ["portable", "avx2"],
    "versions": {"torch": "2.13.0"},
    "cpu": "a CPU",
}

EMULATED = {
    "instruction_sets": ["portable", "dotprod"],
    "runs": {"exact, portable": 102, "fast, portable": 44, "fast, dotprod": 44}
    | {"exact, dotprod": 102, "fast, with exp, portable": 58, "fast, with exp, dotprod": 58},
    "largest_differences": {"exact": 1.12e-7, "fast, with exp": 1e-7},
    "forged_files": {"refused": 803, "ok": 197},
    "failures": [],
    "compiler": "a compiler",
    "emulator": "an emulator",
}
PLACES = {"files": PROGRAM_FILES, "programs": PROGRAMS, "arm": ARM}


def evidence_of(root, **contents):
    for name, content in contents.items():
        path = root / PLACES[name]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
    return Evidence(root)


def test_damaged_files_of_the_runtime_have_a_row_for_each_kind(tmp_path):
    text = damaged_programs(evidence_of(tmp_path, files=FILES))
    assert "| forge wiring | 4,000 | 0 | 1,000 |" in text
    assert "| all | 19,000 | 0 | 1,000 |" in text
    assert "20,000 files, each read and run" in text and "the longest took 1.2 s. a CPU." in text


def test_random_programs_tell_stages_and_differences(tmp_path):
    text = random_programs(evidence_of(tmp_path, programs=RANDOM))
    assert "| export exact | 2,000 |" in text
    assert "largest output: exact: at the median 2e-07, at most 3e-06. Instruction" in text


def test_an_emulated_processor_is_named_with_what_it_ran(tmp_path):
    text = on_arm(evidence_of(tmp_path, arm=EMULATED))
    assert text.startswith("102 networks in both modes and 1,000 forged files, on portable and")
    assert "exact 1e-07" in text and text.endswith("a compiler; an emulator.")


def test_failures_are_not_shown_as_if_there_were_none(tmp_path):
    failed = {"failures": ["flip_bits 17: crashed"]}
    contents = {"files": FILES, "programs": RANDOM, "arm": EMULATED}
    evidence = evidence_of(tmp_path, **{name: was | failed for name, was in contents.items()})
    for section in (damaged_programs, random_programs, on_arm):
        with pytest.raises(ValueError, match="holds failures"):
            section(evidence)


def test_what_was_not_run_is_said(tmp_path):
    assert damaged_programs(Evidence(tmp_path)) == "Not measured yet."
    assert random_programs(Evidence(tmp_path)) == "Not measured yet."
    assert on_arm(Evidence(tmp_path)) == "Not measured yet."
