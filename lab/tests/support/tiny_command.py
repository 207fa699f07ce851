"""`binaryrelax train` with few images: ``python -m lab.tests.support.tiny_command FOLDER``."""

import sys
from pathlib import Path

from lab.tests.support.tiny import tiny_data, tiny_recipe

from binaryrelax_lab.engine import FINAL_NAME, Job, Listener, RunOptions, this_machine, train_all

NUM_EPOCHS = 8


def train_both(out: Path) -> None:
    """The float network and the ternary one, with a checkpoint after every second step."""
    ancestor = Job(tiny_recipe("float", NUM_EPOCHS), 0, out / "tiny-float")
    job = Job(tiny_recipe("ternary", NUM_EPOCHS), 0, out, ancestor.folder / FINAL_NAME)
    options = RunOptions(resume=True, checkpoint_every=1)
    with this_machine() as machine:
        train_all(
            [ancestor, job], tiny_data(), machine=machine, listener=Listener(), options=options
        )


if __name__ == "__main__":
    train_both(Path(sys.argv[1]))
