"""A step of SGD or AdamW inside the first kernel, beside the one that torch takes (eq. 10)."""

import pytest
import torch
from torch import nn

from binaryrelax import Binary, PerChannel, PerGroup, PerLayer, Ternary, TernaryThreshold
from binaryrelax.kernels.descent import AdamWStep, SGDStep, is_aligned
from tests.kernels.lockstep import DEVICE, PER_LAYER, QUANTIZERS, QUIET, Twin
from tests.quantizers.cases import random_weights, same_bits, with_granularity

pytestmark = QUIET
OF_64 = [with_granularity(quantizer, PerGroup(64)) for quantizer in PER_LAYER]
SETTINGS = {
    "plain": {},
    "decayed": {"weight_decay": 0.01},
    "heavy ball": {"momentum": 0.9, "weight_decay": 1e-4},
    "dampened": {"momentum": 0.9, "dampening": 0.3},
    "nesterov": {"momentum": 0.9, "weight_decay": 1e-4, "nesterov": True},
}
SHAPES = [(4200,), (3, 7, 3, 3), (2, 300)]
SHAPES_IN_GROUPS = [(4, 2, 128), (1, 64), (17, 256)]
ROUNDING = {"rtol": 1e-5, "atol": 1e-7}


def weights_for(granularity, seed):
    if isinstance(granularity, PerGroup):
        shapes = [shape for shape in SHAPES_IN_GROUPS if shape[-1] % granularity.size == 0]
        return [random_weights(*shape, seed=seed + i) for i, shape in enumerate(shapes)]
    weights = [random_weights(*shape, seed=seed + i) for i, shape in enumerate(SHAPES)]
    weights[1] = weights[1].to(memory_format=torch.channels_last)
    return weights if granularity == PerLayer() else weights[1:]


class Pair:
    """The same weights, moved by torch's SGD and by the kernels."""

    def __init__(self, quantizer, settings, seed=0):
        self.twin = Twin(quantizer, weights_for(quantizer.granularity, seed))
        self.parameters = [nn.Parameter(y.clone()) for y in self.twin.ys]
        self.sgd = torch.optim.SGD(self.parameters, lr=0.1, **settings)
        self.settings, self.lr = settings, torch.full((), 0.1, device=DEVICE)
        self._step_torch(seed)  # SGD makes its velocities in the first step
        for y, parameter in zip(self.twin.ys, self.parameters, strict=True):
            y.copy_(parameter.detach())
        self.velocities = [
            self.sgd.state[p]["momentum_buffer"].clone()
            for p in self.parameters
            if settings.get("momentum")
        ]

    def step(self, seed, mix):
        """Both take the step with the same gradients; x of the kernels."""
        gradients = self._step_torch(seed)
        for x in self.twin.xs:
            x.fill_(float("nan"))
        self.twin.mix.fill_(mix)
        descent = SGDStep(gradients, self.velocities, self.lr, **self.settings)
        self.twin.fused(self.twin.mix, descent)
        return [x.to("cpu", copy=True) for x in self.twin.xs]

    def _step_torch(self, seed):
        torch.manual_seed(seed)
        gradients = [torch.randn_like(parameter) * 0.01 for parameter in self.parameters]
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient.clone()
        self.sgd.step()
        return gradients


@pytest.mark.parametrize("quantizer", [*QUANTIZERS, *OF_64], ids=repr)
def test_every_quantizer_steps_as_torch_does(quantizer):
    assert_steps(quantizer, SETTINGS["heavy ball"])


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_every_setting_steps_as_torch_does(settings):
    assert_steps(TernaryThreshold(), settings)
    assert_steps(TernaryThreshold(granularity=PerGroup(64)), settings)


def assert_steps(quantizer, settings):
    """y and velocities are torch's to rounding, and x is exactly that of the new y."""
    pair = Pair(quantizer, settings)
    for seed in (1, 2):
        relaxed = pair.step(seed, mix=0.3)
        for y, parameter in zip(pair.twin.ys, pair.parameters, strict=True):
            torch.testing.assert_close(y, parameter.detach(), **ROUNDING)
        for velocity, parameter in zip(pair.velocities, pair.parameters, strict=False):
            expected = pair.sgd.state[parameter]["momentum_buffer"]
            torch.testing.assert_close(velocity, expected, **ROUNDING)
        fresh = Twin(quantizer, pair.twin.ys).relax(0.3)
        assert all(same_bits(a, b) for a, b in zip(relaxed, fresh, strict=True))


def test_the_learning_rate_is_read_from_the_device():
    pair = Pair(TernaryThreshold(), {"momentum": 0.9})
    pair.lr.fill_(0.01)
    pair.sgd.param_groups[0]["lr"] = 0.01
    pair.step(seed=1, mix=1.0)
    for y, parameter in zip(pair.twin.ys, pair.parameters, strict=True):
        torch.testing.assert_close(y, parameter.detach(), **ROUNDING)


@pytest.mark.parametrize("granularity", [PerLayer(), PerGroup(64)], ids=repr)
def test_gradients_anywhere_in_a_buffer(granularity):
    """As under DistributedDataParallel: views that do not begin where wide loads can."""
    pair = Pair(TernaryThreshold(granularity=granularity), SETTINGS["heavy ball"])
    gradients = pair._step_torch(seed=1)
    sizes = [gradient.numel() for gradient in gradients]
    buffer = torch.empty(2 + sum(sizes), device=DEVICE)
    views = []
    for gradient, part in zip(gradients, buffer[2:].split(sizes), strict=True):
        views.append(part.as_strided(gradient.shape, gradient.stride()))
        views[-1].copy_(gradient)
    descent = SGDStep(views, pair.velocities, pair.lr, **pair.settings)
    assert not is_aligned(descent)
    pair.twin.fused(pair.twin.mix, descent)
    for y, parameter in zip(pair.twin.ys, pair.parameters, strict=True):
        torch.testing.assert_close(y, parameter.detach(), **ROUNDING)


def test_settings_that_change_need_no_new_launch():
    pair = Pair(TernaryThreshold(), {"momentum": 0.9})
    gradients = [torch.ones_like(y) for y in pair.twin.ys]
    for momentum in (0.9, 0.8, 0.7):
        before = [velocity.clone() for velocity in pair.velocities]
        pair.twin.fused(pair.twin.mix, SGDStep(gradients, pair.velocities, pair.lr, momentum))
        for old, new in zip(before, pair.velocities, strict=True):
            torch.testing.assert_close(new, momentum * old + 1, **ROUNDING)
    assert len(pair.twin.fused._descents) == 1


@pytest.mark.parametrize("quantizer", [*QUANTIZERS, OF_64[0]], ids=repr)
def test_the_default_device_does_not_matter(quantizer):
    here, elsewhere = (Pair(quantizer, SETTINGS["heavy ball"]) for _ in range(2))
    with torch.device("meta"):
        elsewhere.twin = Twin(quantizer, elsewhere.twin.ys)  # what it holds is made there, too
        found = elsewhere.step(1, mix=0.3)
    assert all(map(same_bits, found, here.step(1, mix=0.3)))


ADAMW = {
    "default": {},
    "of language models": {"betas": (0.9, 0.95), "weight_decay": 0.1},
    "not decayed": {"weight_decay": 0.0, "eps": 1e-6},
    "long memory": {"betas": (0.99, 0.9999)},
}
CLOSE = {"rtol": 2.0**-21, "atol": 1e-12}  # a few roundings
# A sum can be small beside its terms, here weights and gradients of about 1 and 0.01.
CLOSE_SUM, CLOSE_MEAN = {**CLOSE, "atol": 2.0**-25}, {**CLOSE, "atol": 2.0**-31}


class AdamWPair:
    """The same weights, moved by torch's AdamW and by the kernels."""

    def __init__(self, quantizer, settings, num_steps_before=1):
        self.twin = Twin(quantizer, weights_for(quantizer.granularity, seed=0))
        self.parameters = [nn.Parameter(y.clone()) for y in self.twin.ys]
        self.adamw = torch.optim.AdamW(self.parameters, lr=0.01, foreach=False, **settings)
        self.settings, self.lr = settings, torch.full((), 0.01, device=DEVICE)
        self._step_torch(seed=0)  # AdamW makes its moments in the first step
        states = [self.adamw.state[p] for p in self.parameters]
        for state in states:
            state["step"].fill_(num_steps_before)
        for y, parameter in zip(self.twin.ys, self.parameters, strict=True):
            y.copy_(parameter.detach())
        self.means = [state["exp_avg"].clone() for state in states]
        self.squares = [state["exp_avg_sq"].clone() for state in states]
        self.counts = [state["step"].to(DEVICE, copy=True) for state in states]

    def step(self, seed):
        gradients = self._step_torch(seed)
        self.twin.mix.fill_(0.3)
        of_weights = (gradients, self.means, self.squares, self.counts)
        self.twin.fused(self.twin.mix, AdamWStep(*of_weights, self.lr, **self.settings))

    def assert_alike(self):
        kept = zip(self.twin.ys, self.means, self.squares, self.counts, strict=True)
        for parameter, (y, mean, square, count) in zip(self.parameters, kept, strict=True):
            state = self.adamw.state[parameter]
            torch.testing.assert_close(y, parameter.detach(), **CLOSE_SUM)
            torch.testing.assert_close(mean, state["exp_avg"], **CLOSE_MEAN)
            torch.testing.assert_close(square, state["exp_avg_sq"], **CLOSE)
            assert count.item() == state["step"].item()

    def _step_torch(self, seed):
        torch.manual_seed(seed)
        gradients = [torch.randn_like(parameter) * 0.01 for parameter in self.parameters]
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient.clone()
        self.adamw.step()
        return gradients


@pytest.mark.parametrize(
    "quantizer", [Ternary(), TernaryThreshold(granularity=PerChannel()), *OF_64], ids=repr
)
def test_every_quantizer_steps_as_adamw_does(quantizer):
    pair = AdamWPair(quantizer, ADAMW["of language models"])
    for seed in (1, 2):
        pair.step(seed)
        pair.assert_alike()
        fresh = Twin(quantizer, pair.twin.ys).relax(0.3)
        assert all(same_bits(x.cpu(), y) for x, y in zip(pair.twin.xs, fresh, strict=True))


@pytest.mark.parametrize("num_steps_before", [1, 1_000_000])
@pytest.mark.parametrize("settings", ADAMW.values(), ids=ADAMW)
def test_every_setting_and_bias_correction_is_that_of_adamw(settings, num_steps_before):
    pair = AdamWPair(Binary(), settings, num_steps_before)
    for seed in (1, 2):
        pair.step(seed)
    pair.assert_alike()


def test_each_weight_has_its_own_count_of_steps():
    """One that joined later is corrected as a young one."""
    pair = AdamWPair(TernaryThreshold(), {})
    for i, (count, parameter) in enumerate(zip(pair.counts, pair.parameters, strict=True)):
        count.fill_(10 * i)
        pair.adamw.state[parameter]["step"].fill_(10 * i)
    pair.step(seed=1)
    pair.assert_alike()
