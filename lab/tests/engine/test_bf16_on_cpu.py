"""bf16 on a CPU ends with a result, not with a signal."""

import os
import subprocess
import sys

PRODUCT = """
import torch
from binaryrelax_lab.engine.machine import this_machine
with this_machine(precision="bf16") as machine, machine.autocast():
    print(float((torch.ones(64, 64) @ torch.ones(64, 64)).sum()))
"""


def test_a_product_in_bf16_ends_with_a_result():
    environment = {name: value for name, value in os.environ.items() if "ONEDNN" not in name}
    process = subprocess.run(
        [sys.executable, "-c", PRODUCT], env=environment, capture_output=True, text=True
    )
    assert (process.returncode, process.stdout.strip()) == (0, "262144.0"), process.stderr


def test_a_choice_of_instructions_stays(monkeypatch):
    from binaryrelax_lab.engine.bf16_on_cpu import ISA, make_bf16_safe

    monkeypatch.setenv(ISA, "AVX2")
    make_bf16_safe()
    assert os.environ[ISA] == "AVX2"
