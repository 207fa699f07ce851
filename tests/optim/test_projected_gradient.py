import torch
from torch.optim import SGD

from binaryrelax import Binary, BinaryRelax, Hard, ProjectedGradient, Ternary, select_weights
from tests.optim.toy import small_network, train


def codes(optimizer):
    return [w.detach().sign() for w in optimizer.quantizers]


def test_one_step_is_eq_2():
    model, plain = small_network(), small_network()
    optimizer = ProjectedGradient(
        SGD(model.parameters(), lr=0.5), select_weights(model, Ternary(), ("6",))
    )
    plain.load_state_dict(model.state_dict())
    train(model, optimizer, 1)
    train(plain, SGD(plain.parameters(), lr=0.5), 1)
    assert torch.equal(model[3].weight, Ternary().project(plain[3].weight))


def test_small_learning_rates_stagnate_where_binary_connect_moves_on():
    moved = {}
    for method in (ProjectedGradient, lambda b, w: BinaryRelax(b, w, Hard())):
        model = small_network()
        base = SGD(model.parameters(), lr=0.003)
        optimizer = method(base, select_weights(model, Binary(), ("6",)))
        before = codes(optimizer)
        train(model, optimizer, 150)
        pairs = zip(before, codes(optimizer), strict=True)
        moved[type(optimizer).__name__] = sum(int((a != b).sum()) for a, b in pairs)
    assert moved["ProjectedGradient"] == 0
    assert moved["BinaryRelax"] > 10
