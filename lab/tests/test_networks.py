"""The trained networks that are shipped: what they are, by their bytes and by the results."""

from pathlib import Path

import pytest
import torch

from binaryrelax import certify
from binaryrelax_lab.data import IMAGE_SHAPES
from binaryrelax_lab.engine import read_json
from binaryrelax_lab.packing import load_packed_run

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "networks").glob("*.safetensors"))


NORMALISATIONS = {
    "cifar10": ("0.4914 0.4822 0.4465", "0.247 0.2435 0.2616"),
    "cifar100": ("0.5071 0.4865 0.4409", "0.2673 0.2564 0.2762"),
}


def result_of(about):
    """What is committed of the run that made the network."""
    folder = ROOT / "results" / about["dataset"] / about["name"]
    return read_json(folder / f"seed{about['seed']}.json")


def test_all_of_them_were_tried_on_the_test_images():
    records = read_json(ROOT / "results" / "findings" / "networks.json")["records"]
    assert [record["file"] for record in records] == [file.name for file in FILES]
    assert len(FILES) >= 2
    for record, file in zip(records, FILES, strict=True):
        about = certify(file).about
        figure = "last_recalibrated" if "statistics" in about else "last"
        assert record["accuracy"] == pytest.approx(result_of(about)["summary"][figure], abs=0.15)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_network_is_the_one_that_its_result_tells_of(file):
    certificate = certify(file)
    assert certificate.ok
    about = certificate.about
    assert about["name"] == file.stem
    result = result_of(about)
    assert about["weights"] == result["weights"]["digest"]
    assert (about["mean"], about["deviation"]) == NORMALISATIONS[about["dataset"]]
    assert result["summary"]["in_q"] is True
    levels = {"binary": 2, "ternary": 3}[result["recipe"]["method"]]
    assert all(layer.distinct_values == levels for layer in certificate.layers)
    layers = {layer["name"]: layer for layer in result["weights"]["layers"]}
    for layer in certificate.layers:
        trained = layers[f"{layer.name}.weight"]
        assert layer.zeros == pytest.approx(trained["num_zeros"] / trained["num_weights"])


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_network_is_built_and_takes_images(file):
    model, dataset = load_packed_run(file)
    assert dataset == certify(file).about["dataset"]
    scores = model(torch.zeros(2, *IMAGE_SHAPES[dataset]))
    num_classes = {"cifar10": 10, "cifar100": 100}[dataset]
    assert scores.shape == (2, num_classes) and scores.isfinite().all()
