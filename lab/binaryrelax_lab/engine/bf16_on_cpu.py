"""Products in bf16 on a CPU, also where the CPU tells of instructions that it does not have."""

import os
import subprocess
import sys

ISA = "ONEDNN_MAX_CPU_ISA"
WITHOUT_AMX = "AVX512_CORE_BF16"
TRIAL = "import torch; a = torch.ones(64, 64, dtype=torch.bfloat16); a @ a"


def make_bf16_safe() -> None:
    """Has oneDNN do without AMX if a product with it kills a process, as in some virtual machines.

    Who has set oneDNN's variable has chosen. It is read at the first product, not before.
    """
    if ISA not in os.environ:
        trial = subprocess.run([sys.executable, "-c", TRIAL], check=False, capture_output=True)
        if trial.returncode < 0:  # killed by a signal
            os.environ[ISA] = WITHOUT_AMX
