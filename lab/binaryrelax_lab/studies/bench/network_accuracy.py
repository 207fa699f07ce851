"""How many test images a trained network gets right, engine by engine."""

from collections.abc import Iterator
from typing import Any

import torch

from binaryrelax_lab.data import ImageSet
from binaryrelax_lab.studies import Say
from binaryrelax_lab.studies.bench.prepared_network import PreparedNetwork, Side, float_side

BATCH = 16  # divides the test images of both sets


def measure_accuracies(
    say: Say, network: PreparedNetwork, data: ImageSet
) -> Iterator[dict[str, Any]]:
    """One record per engine and width: ours, torch in float32, the others in int8."""
    for side in _sides(network):
        with torch.inference_mode():
            accuracy = _accuracy(side, data)
        say(f"  accuracy, {side.name}: {accuracy:.2f} %")
        yield {
            "network": network.subject.network,
            "dataset": network.subject.dataset,
            "weights": side.weights,
            "engine": side.engine,
            "accuracy": accuracy,
            "images": data.num_test,
        }


def _sides(network: PreparedNetwork) -> Iterator[Side]:
    yield from network.our_sides()
    yield from network.uncalibrated_sides()
    for weights, pair in network.pairs.items():
        yield float_side(weights, pair.floats)
        rivals = network.rival_sides(BATCH, weights)
        yield from (side for side in rivals if side.engine.endswith("int8"))


def _accuracy(side: Side, data: ImageSet) -> float:
    right = 0
    for batch in data.test_batches(BATCH):
        images, labels = data.look_up_test(*batch)
        found = side.run(images.contiguous())
        scores = torch.as_tensor(found[0] if isinstance(found, list) else found)
        right += int((scores.argmax(1) == labels).sum())
    return 100 * right / data.num_test
