"""torch.distributed.checkpoint: saved on some ranks, resumed on others or on none."""

import copy
import warnings

import pytest
import torch
from torch import distributed
from torch.optim import SGD, AdamW

from binaryrelax import Binary, Hard
from tests.optim.sharded import equal, sharded, snapshot
from tests.optim.toy import SHORT, SHORTER, loss_of, sgd, small_network, train, wrapped
from tests.support.ranks import run_on_ranks

BASES = {
    "sgd": sgd,
    "sgd without state": lambda model: SGD(model.parameters(), lr=0.05),
    "adamw": lambda model: AdamW(model.parameters(), lr=0.01),
    "adamw in two groups": lambda model: AdamW(
        [{"params": model[:3].parameters(), "lr": 0.02}, {"params": model[3:].parameters()}]
    ),
}


def plain(base, seed=0, schedule=SHORT):
    model = small_network(seed)
    return model, wrapped(model, base, schedule=schedule)


def save(folder, base, num_steps, schedule=SHORT):
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict

    model, optimizer = sharded(BASES[base], schedule=schedule)
    train(model, optimizer, num_steps)
    optimizer.zero_grad()
    before = snapshot(model, optimizer)
    of_model, of_optimizer = get_state_dict(model, optimizer)
    assert equal(before, snapshot(model, optimizer))  # looking changes nothing
    dcp.save({"model": of_model, "optimizer": of_optimizer}, checkpoint_id=folder)
    return before


def resume(folder, base, num_steps, schedule=SHORT, build=sharded):
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    model, optimizer = build(BASES[base], seed=9, schedule=schedule)
    of_model, of_optimizer = get_state_dict(model, optimizer)
    assert optimizer.num_steps == 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says that there is no process group
        dcp.load({"model": of_model, "optimizer": of_optimizer}, checkpoint_id=folder)
    set_state_dict(model, optimizer, model_state_dict=of_model, optim_state_dict=of_optimizer)
    loaded = snapshot(model, optimizer)
    train(model, optimizer, num_steps)
    return loaded, snapshot(model, optimizer)


def assert_resumes_on_other_ranks(base, schedule, num_before, tmp_path):
    """4 ranks save; 2 ranks and one plain process go on to the bits of an uninterrupted run."""
    model, optimizer = plain(BASES[base], schedule=schedule)
    train(model, optimizer, num_before + 6)
    assert optimizer.phase == 2
    uninterrupted = snapshot(model, optimizer)
    folder = str(tmp_path / "checkpoint")
    saved = run_on_ranks(save, 4, tmp_path / "four", folder, base, num_before, schedule)
    resumed = run_on_ranks(resume, 2, tmp_path / "two", folder, base, 6, schedule)
    for loaded, after in (*resumed, resume(folder, base, 6, schedule, plain)):
        assert equal(loaded, saved[0])
        assert equal(after, uninterrupted)


@pytest.mark.parametrize("base", BASES)
def test_resumes_on_another_number_of_ranks(base, tmp_path):
    assert_resumes_on_other_ranks(base, SHORTER, 7, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("base", BASES)
def test_resumes_on_another_number_of_ranks_after_longer(base, tmp_path):
    assert_resumes_on_other_ranks(base, SHORT, 28, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("num_ranks", [(2, 4), (3, 3), (1, 3), (4, 1)])
@pytest.mark.parametrize("num_steps", [0, 1, 31])
def test_resumes_at_any_step(num_ranks, num_steps, tmp_path):
    folder = str(tmp_path / "checkpoint")
    saved = run_on_ranks(save, num_ranks[0], tmp_path / "saving", folder, "adamw", num_steps)
    resumed = run_on_ranks(resume, num_ranks[1], tmp_path / "loading", folder, "adamw", 0)
    assert equal(resumed[0][0], saved[0])


def resume_from_full(base):
    """The other way of torch: gathered on the first rank, and handed out from there."""
    from torch.distributed.checkpoint.state_dict import (
        StateDictOptions,
        get_optimizer_state_dict,
        set_optimizer_state_dict,
    )

    model, optimizer = sharded(BASES[base])
    train(model, optimizer, 5)
    whole = StateDictOptions(full_state_dict=True, cpu_offload=True)
    state = get_optimizer_state_dict(model, optimizer, options=whole)
    twin, resumed = sharded(BASES[base])
    twin.load_state_dict(model.state_dict())
    handed_out = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    state = copy.deepcopy(state) if distributed.get_rank() == 0 else {}
    set_optimizer_state_dict(twin, resumed, state, options=handed_out)
    train(model, optimizer, 3)
    train(twin, resumed, 3)
    assert equal(snapshot(model, optimizer), snapshot(twin, resumed))


@pytest.mark.parametrize("base", ["sgd", "adamw"])
def test_resumes_from_a_full_state_dict(base, tmp_path):
    run_on_ranks(resume_from_full, 2, tmp_path, base)


def load_what_does_not_fit():
    from torch.distributed.checkpoint.state_dict import (
        StateDictOptions,
        get_optimizer_state_dict,
        set_optimizer_state_dict,
    )

    model, optimizer = sharded()
    train(model, optimizer, 3)
    state = get_optimizer_state_dict(model, optimizer)
    for settings, message in (
        ({"schedule": Hard()}, r"saved with schedule GeometricGrowth.*this has Hard"),
        ({"quantizer": Binary()}, r"saved with quantizers \['Ternary\(\)'.*Binary"),
    ):
        other, loading = sharded(**settings)
        with pytest.raises(ValueError, match=message):
            set_optimizer_state_dict(other, loading, copy.copy(state))
    flat = StateDictOptions(flatten_optimizer_state_dict=True)
    state = get_optimizer_state_dict(model, optimizer, options=flat)
    with pytest.raises(ValueError, match=r"flatten_optimizer_state_dict=True .* not supported"):
        set_optimizer_state_dict(model, optimizer, state, options=flat)
    with pytest.raises(ValueError, match="one of checkpoint and optimizer is sharded"):
        optimizer.load_state_dict(wrapped(small_network()).state_dict())
    model[0].weight.requires_grad_(False)
    with pytest.raises(ValueError, match=r"float weights 0\.weight: saved missing.*frozen"):
        set_optimizer_state_dict(model, optimizer, get_optimizer_state_dict(model, optimizer))


def test_what_does_not_fit_is_named(tmp_path):
    run_on_ranks(load_what_does_not_fit, 2, tmp_path)


def test_state_that_was_not_loaded_is_missed():
    """torch makes no lazy state where gradients are, and then loads none, without a word."""
    from torch.distributed.checkpoint.state_dict import (
        get_optimizer_state_dict,
        set_optimizer_state_dict,
    )

    model, optimizer = plain(sgd)
    train(model, optimizer, 2)
    saved = get_optimizer_state_dict(model, optimizer)
    fresh, loading = plain(sgd)
    loss_of(fresh).backward()
    state = get_optimizer_state_dict(fresh, loading)
    state["param_groups"] = saved["param_groups"]  # plain data, which dcp.load replaces
    with pytest.raises(ValueError, match=r"saved with \['base.momentum_buffer'\].*not loaded"):
        set_optimizer_state_dict(fresh, loading, state)


@pytest.mark.parametrize("base", BASES)
def test_the_step_that_makes_lazy_state_is_not_counted(base):
    from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

    model, optimizer = plain(BASES[base])
    before = snapshot(model, optimizer)
    state = get_optimizer_state_dict(model, optimizer)
    assert equal(before, snapshot(model, optimizer))
    assert state["param_groups"][0]["relax_steps"] == 0
    has_state = base != "sgd without state"
    assert any(key.startswith("base.") for key in state["state"]["0.weight"]) == has_state


def test_a_step_with_zero_learning_rate_is_counted():
    model = small_network()
    optimizer = wrapped(model, lambda m: sgd(m, lr=0.0))
    before = [y.clone() for y in optimizer.float_weights.values()]
    train(model, optimizer, 2)
    assert optimizer.num_steps == 2
    assert all(map(torch.equal, before, optimizer.float_weights.values()))
