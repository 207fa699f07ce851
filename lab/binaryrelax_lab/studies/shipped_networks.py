"""How good the networks are that are shipped, tried from their packed files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from binaryrelax_lab.data import load_dataset
from binaryrelax_lab.engine.machine import Machine
from binaryrelax_lab.packing import accuracy_of, load_packed_run
from binaryrelax_lab.studies import Say, silence
from binaryrelax_lab.studies.finding import Record


def accuracies_of_files(
    folder: Path, data_folder: Path | None, say: Say = silence
) -> Iterator[Record]:
    """The accuracy on the test images of each packed file in the folder."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise ValueError(f"{folder} holds no packed network: there is no *.safetensors in it")
    for file in files:
        model, dataset = load_packed_run(file)
        data = load_dataset(dataset, data=data_folder)
        accuracy = accuracy_of(model, data, Machine())
        say(f"{file.name}: {accuracy:.2f} %")
        yield {"file": file.name, "accuracy": accuracy}
