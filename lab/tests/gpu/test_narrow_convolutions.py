"""Convolutions of few channels on a CUDA device: at ResNet-20's sizes, and inside its steps."""

import pytest
import torch
from torch.nn import functional

pytest.importorskip("triton", reason="the kernels are written in Triton")
from binaryrelax_lab.engine import Machine
from binaryrelax_lab.engine.narrow_convolutions import Convolution, FewChannels
from binaryrelax_lab.studies.bench.convolutions import LAYERS, give_back
from binaryrelax_lab.studies.bench.training_steps import TrainingSteps, random_images, recipe_of

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.mark.parametrize("number", [1, 80, 128, 2000])
@pytest.mark.parametrize("layer", LAYERS)
def test_result_and_gradients_are_those_of_float32(layer, number):
    channels, width = layer
    torch.manual_seed(0)
    shape = number, channels, width, width
    x, gradient = (
        torch.randn(shape, device="cuda", dtype=torch.bfloat16).contiguous(
            memory_format=torch.channels_last
        )
        for _ in range(2)
    )
    weight = torch.randn(channels, channels, 3, 3, device="cuda", requires_grad=True)
    x.requires_grad_()
    torch.backends.cudnn.allow_tf32 = False
    exact = functional.conv2d(x.float(), weight.to(torch.bfloat16).float(), padding=1)
    expected = torch.autograd.grad(exact, (x, weight), gradient.float())
    result = Convolution.apply(x, weight)
    found = torch.autograd.grad(result, (x, weight), gradient)
    for ours, theirs in zip((result, *found), (exact, *expected), strict=True):
        error = (ours.double() - theirs.double()).norm() / theirs.double().norm()
        assert error < 2.0**-8


def test_gradients_of_the_weight_are_the_same_bits_each_time():
    x = torch.randn(128, 16, 32, 32, device="cuda", dtype=torch.bfloat16)
    x = x.contiguous(memory_format=torch.channels_last)
    weight = torch.randn(16, 16, 3, 3, device="cuda", requires_grad=True)
    gradients = [torch.autograd.grad(Convolution.apply(x, weight), weight, x)[0] for _ in range(5)]
    assert all(torch.equal(gradient, gradients[0]) for gradient in gradients)


def test_a_network_learns_as_with_cudnn():
    """Whole training steps, compiled and captured: the losses agree but for bf16's rounding."""
    machine = Machine(torch.device("cuda"), precision="bf16")
    data, losses, notes = random_images().to(machine.device), [], []
    for prepare in (lambda model: None, give_back):
        steps = TrainingSteps(recipe_of("resnet20", "binary"), data, machine, notes.append, prepare)
        layers = [m for m in steps.trainer.model.modules() if isinstance(m, FewChannels)]
        assert len(layers) == (0 if prepare is give_back else 16)
        steps.take(20)
        torch.cuda.synchronize()
        losses.append(float(steps.trainer.loss_sum))
    assert notes == []
    assert abs(losses[0] / losses[1] - 1) < 0.02
