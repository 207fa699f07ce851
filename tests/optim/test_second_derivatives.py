"""Gradients that carry a graph: who differentiates them again inside a step is refused."""

import pytest
import torch
from torch import nn
from torch.optim import SGD, Adam, Optimizer

from tests.optim.toy import IMAGES, LABELS, same_bits, sgd, small_network, wrapped


class AdaHessian(Optimizer):
    """As timm's: Hutchinson's estimate of the Hessian's diagonal scales the step."""

    def __init__(self, params, lr=0.1, betas=(0.9, 0.999), eps=1e-8):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps})
        self.generator = torch.Generator().manual_seed(0)

    @torch.no_grad()
    def set_hessian(self):
        params = [p for g in self.param_groups for p in g["params"] if p.grad is not None]
        gradients = [p.grad for p in params]
        signs = [torch.randint(0, 2, p.shape, generator=self.generator) * 2.0 - 1 for p in params]
        products = torch.autograd.grad(
            gradients, params, grad_outputs=signs, only_inputs=True, retain_graph=False
        )
        for p, product, z in zip(params, products, signs, strict=True):
            p.hess = product * z

    @torch.no_grad()
    def step(self, closure=None):
        loss = closure() if closure is not None else None
        self.set_hessian()
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state.update(step=0, m=torch.zeros_like(p), h=torch.zeros_like(p))
                state["step"] += 1
                (b1, b2), k = group["betas"], state["step"]
                state["m"].mul_(b1).add_(p.grad, alpha=1 - b1)
                state["h"].mul_(b2).addcmul_(p.hess, p.hess, value=1 - b2)
                scale = (state["h"] / (1 - b2**k)).sqrt().add_(group["eps"])
                p.addcdiv_(state["m"], scale, value=-group["lr"] / (1 - b1**k))
        return loss


def smooth_network():
    model = small_network()
    model[1] = nn.Identity()  # batch normalization would count batches
    model[2], model[4] = nn.Tanh(), nn.Tanh()
    return model


def backward(model, **options):
    loss = nn.functional.cross_entropy(model(IMAGES), LABELS)
    loss.backward(**options)
    return loss


@pytest.mark.filterwarnings("ignore:Using backward.. with create_graph=True")
@pytest.mark.parametrize("has_closure", [False, True])
def test_adahessian_is_refused_by_name_and_nothing_has_moved(has_closure):
    model = smooth_network()
    optimizer = wrapped(model, lambda m: AdaHessian(m.parameters()))
    before = [p.detach().clone() for p in model.parameters()]
    y = [value.clone() for value in optimizer.float_weights.values()]

    def closure():
        optimizer.zero_grad()
        return backward(model, create_graph=True)

    if not has_closure:
        closure()
    message = "BinaryRelax: AdaHessian differentiates the gradients again.*first derivatives"
    with pytest.raises(ValueError, match=message):
        optimizer.step(closure if has_closure else None)
    assert all(map(torch.equal, before, model.parameters()))
    assert all(map(torch.equal, y, optimizer.float_weights.values()))
    assert optimizer.num_steps == 0


@pytest.mark.filterwarnings("ignore:Using backward.. with create_graph=True")
def test_adahessian_itself_steps_without_the_wrapper():
    model = smooth_network()
    base = AdaHessian(model.parameters())
    losses = []
    for _ in range(5):
        base.zero_grad()
        losses.append(backward(model, create_graph=True).item())
        base.step()
    assert losses[-1] < losses[0]


class OwnSGD(SGD):
    """A first-order optimizer that is not torch's."""


@pytest.mark.filterwarnings("ignore:Using backward.. with create_graph=True")
@pytest.mark.parametrize(
    "base", [sgd, lambda m: Adam(m.parameters()), lambda m: OwnSGD(m.parameters())]
)
def test_optimizers_of_first_derivatives_take_gradients_with_a_graph(base):
    model, plain = smooth_network(), smooth_network()
    optimizer, reference = wrapped(model, base), wrapped(plain, base)
    for _ in range(4):
        optimizer.zero_grad()
        backward(model, create_graph=True)
        optimizer.step()
        reference.zero_grad()
        backward(plain)
        reference.step()
    assert same_bits(model, plain)


@pytest.mark.filterwarnings("ignore:Using backward.. with create_graph=True")
def test_gradients_may_be_differentiated_before_the_step():
    model = smooth_network()
    optimizer = wrapped(model)
    backward(model, create_graph=True)
    penalty = sum(p.grad.square().sum() for p in model.parameters())
    penalty.backward()
    optimizer.step()
    assert optimizer.num_steps == 1
