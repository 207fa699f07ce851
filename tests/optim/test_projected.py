import pytest
import torch

from tests.optim.toy import small_network, train, wrapped


def test_hard_weights_inside_and_exactly_x_after():
    model = small_network()
    optimizer = wrapped(model)
    train(model, optimizer, 5)
    x = [p.detach().clone() for p in model.parameters()]
    with optimizer.projected():
        for weight, quantizer in optimizer.quantizers.items():
            assert torch.equal(weight, quantizer.project(optimizer.float_weights[weight]))
        with optimizer.projected():
            pass
        assert len(model[0].weight.detach().unique()) <= 3
    assert all(map(torch.equal, x, model.parameters()))


def test_restored_after_an_exception():
    model = small_network()
    optimizer = wrapped(model)
    x = [p.detach().clone() for p in model.parameters()]
    with pytest.raises(ZeroDivisionError), optimizer.projected():
        raise ZeroDivisionError
    assert all(map(torch.equal, x, model.parameters()))
    train(model, optimizer, 1)


def test_step_and_load_inside_are_refused():
    model = small_network()
    optimizer = wrapped(model)
    state = optimizer.state_dict()
    with optimizer.projected():
        with pytest.raises(RuntimeError, match=r"step\(\) inside projected\(\)"):
            optimizer.step()
        with pytest.raises(RuntimeError, match=r"load_state_dict\(\) inside projected\(\)"):
            optimizer.load_state_dict(state)


def test_saving_inside_saves_the_same():
    model = small_network()
    optimizer = wrapped(model)
    train(model, optimizer, 2)
    outside = optimizer.state_dict()
    with optimizer.projected():
        inside = optimizer.state_dict()
    assert torch.equal(outside["state"][0]["y"], inside["state"][0]["y"])
