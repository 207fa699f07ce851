"""Images and networks on a CUDA device: no waiting, and one graph for look-up and training step."""

import pytest
import torch
from torch.nn import functional

from binaryrelax_lab.data import EpochPlan, load_fashion_mnist
from binaryrelax_lab.models import build_network

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype"),
]
PLAN = EpochPlan(seed=0, epoch=3, batch_size=64, flip=True, crop_padding=4)


@pytest.fixture(scope="module")
def data():
    return load_fashion_mnist().to(torch.device("cuda"))


@pytest.fixture
def no_waiting():
    """Anything that waits for the device raises."""
    torch.cuda.set_sync_debug_mode("error")
    yield
    torch.cuda.set_sync_debug_mode("default")


def first_batches(data, count):
    batches = data.train_batches(plan=PLAN)
    return [next(batches)[0] for _ in range(count)]


def captured(function):
    """Runs the function a few times aside, then in a graph; returns graph and result."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            function()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = function()
    return graph, result


def test_look_up_gives_the_images_of_the_cpu(data):
    for rows in first_batches(data, 3):
        images, labels = data.look_up(rows)
        expected = load_fashion_mnist().look_up(rows.cpu())
        torch.testing.assert_close(images.cpu(), expected[0])
        assert torch.equal(labels.cpu(), expected[1])


def test_nothing_waits_for_the_device(data, no_waiting):
    rows = first_batches(data, 2)[1]
    data.look_up(rows)
    data.look_up_test(next(data.test_batches(100))[0])


def test_look_up_in_a_graph_follows_its_buffer(data):
    first, second = first_batches(data, 2)
    buffer = first.clone()
    graph, (images, labels) = captured(lambda: data.look_up(buffer))
    for rows in (second, first):
        buffer.copy_(rows)
        graph.replay()
        expected = data.look_up(rows)
        assert torch.equal(images, expected[0]) and torch.equal(labels, expected[1])


@pytest.mark.parametrize("name", ["resnet20", "resnet18", "vgg11"])
def test_a_training_step_fits_into_one_graph(name):
    torch.manual_seed(0)
    network = build_network(name, 3, 10).cuda().to(memory_format=torch.channels_last)
    images = torch.randn(16, 3, 32, 32, device="cuda").to(memory_format=torch.channels_last)
    labels = torch.arange(16, device="cuda") % 10
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)

    def step():
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            loss = functional.cross_entropy(network(images), labels)
        loss.backward()
        optimizer.step()
        return loss

    graph, loss = captured(step)
    graph.replay()
    before = loss.item()
    for _ in range(30):
        graph.replay()
    assert loss.item() < before
