"""Projections of DTensors: those of the whole weight, however it is cut up (eqs. 5, 6, 7)."""

import itertools

import pytest
import torch
from torch import nn

from binaryrelax import (
    Binary,
    Levels,
    OneStepLloyd,
    PerChannel,
    PerGroup,
    PowerOfTwo,
    Ternary,
    TernaryAbsMean,
    TernaryThreshold,
    Uniform,
    distance,
)
from binaryrelax.quantizers.sharded_weights import shards_of
from tests.quantizers.adversarial import KINDS, magnitudes_of_kind
from tests.quantizers.cases import same_bits
from tests.support.ranks import run_on_ranks

TERNARY_LEVELS = torch.tensor([0.0, 1.0], dtype=torch.float64)
# float64 sums in another order
SUMMED = (Binary(), TernaryThreshold(), TernaryAbsMean(), OneStepLloyd(bits=3))
GATHERED = (Ternary(), Uniform(bits=2), Uniform(bits=3), PowerOfTwo(bits=3), Levels((1, 3)))
BY_ROWS = tuple(
    kind(granularity=granularity)
    for kind in (Binary, Ternary, TernaryThreshold, TernaryAbsMean)
    for granularity in (PerChannel(), PerGroup(3))
)
SHAPES = ((7, 12), (2, 6), (1, 9), (5, 3, 2, 2))  # some ranks hold little, some nothing


def weights_of_kind(kind, shape, dtype=torch.float32):
    num_weights = torch.Size(shape).numel()
    a = magnitudes_of_kind(kind, (1, num_weights), TERNARY_LEVELS).reshape(shape)
    sign = torch.randint(0, 2, shape, generator=torch.Generator().manual_seed(3)) * 2 - 1
    return (a * sign).clamp(torch.finfo(dtype).min, torch.finfo(dtype).max).to(dtype)


def shard(w, *placements, mesh=None):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import distribute_tensor

    mesh = mesh or init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    return distribute_tensor(w, mesh, placements)


def assert_projects_like_one_process(quantizer, w, sharded, exact):
    """Also: placed as the weight, split and project agree, and twice is once.

    What is placed alike is compared by each rank in its own part, without gathering it.
    """
    from torch.distributed.tensor import DTensor

    once, expected = quantizer.project(sharded), quantizer.project(w)
    assert isinstance(once, DTensor) and once.placements == sharded.placements
    assert once.to_local().stride() == sharded.to_local().stride()
    found = once.full_tensor()
    if exact:
        assert same_bits(found, expected), quantizer
    else:
        torch.testing.assert_close(found, expected, atol=0, rtol=2 * torch.finfo(w.dtype).eps)
    scale, codes = quantizer.split(sharded)
    for same in (quantizer.project(once), scale * codes):
        assert same.placements == once.placements and same.shape == once.shape
        assert same_bits(same.to_local(), once.to_local()), quantizer
    assert codes.placements == once.placements and codes.shape == once.shape
    assert set(codes.to_local().unique().tolist()) <= set(quantizer.codebook)


def project_cut_along(dim, kinds, shapes, dtypes):
    from torch.distributed.tensor import Replicate, Shard

    for kind, shape, dtype in itertools.product(kinds, shapes, dtypes):
        w = weights_of_kind(kind, shape, dtype)
        sharded = shard(w, Replicate() if dim is None else Shard(dim))
        for quantizer in (*SUMMED, *GATHERED, *BY_ROWS):
            exact = quantizer not in SUMMED
            assert_projects_like_one_process(quantizer, w, sharded, exact)


@pytest.mark.parametrize(("num_ranks", "dim"), [(2, 0), (3, 0), (2, 1), (2, None)])
def test_equals_one_process(num_ranks, dim, tmp_path):
    given = (dim, ("normal", "points of Q"), SHAPES[:2], (torch.float32,))
    run_on_ranks(project_cut_along, num_ranks, tmp_path, *given)


@pytest.mark.slow
@pytest.mark.parametrize(("num_ranks", "dim"), [(2, 0), (3, 0), (4, 0), (3, 1)])
def test_equals_one_process_for_every_kind_and_dtype(num_ranks, dim, tmp_path):
    dtypes = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
    run_on_ranks(project_cut_along, num_ranks, tmp_path, dim, tuple(KINDS), SHAPES, dtypes)


def project_long_rows(kinds):
    from torch.distributed.tensor import Shard

    for kind in kinds:
        w = weights_of_kind(kind, (301, 500))
        sharded = shard(w, Shard(0))
        row = sharded.to_local().reshape(1, -1)
        assert Ternary().split_shard(row, shards_of(sharded)) is not None  # not by gathering
        assert same_bits(Ternary().project(sharded).full_tensor(), Ternary().project(w)), kind
    rows = weights_of_kind("normal", (3, 140_000))  # on three ranks each holds one long row
    quantizer = Ternary(granularity=PerChannel())
    found = quantizer.project(shard(rows, Shard(0))).full_tensor()
    assert same_bits(found, quantizer.project(rows))


@pytest.mark.parametrize("num_ranks", [2, 3])
def test_long_exact_ternary_has_the_bits_of_one_process(num_ranks, tmp_path):
    """eq. 6 by histograms of the shards."""
    kinds = ("normal", "ties", "all cuts nearly tie")
    run_on_ranks(project_long_rows, num_ranks, tmp_path, kinds)


@pytest.mark.slow
@pytest.mark.parametrize("num_ranks", [2, 3, 4])
def test_long_exact_ternary_of_every_kind(num_ranks, tmp_path):
    run_on_ranks(project_long_rows, num_ranks, tmp_path, tuple(KINDS))


def project_on_a_square_of_ranks():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("outer", "inner"))
    w = weights_of_kind("normal", (10, 12))
    for placements in ((Replicate(), Shard(0)), (Shard(0), Replicate()), (Shard(0), Shard(1))):
        sharded = shard(w, *placements, mesh=mesh)
        for quantizer in (*SUMMED, Ternary(), Uniform(bits=3), *BY_ROWS):
            exact = quantizer not in SUMMED
            assert_projects_like_one_process(quantizer, w, sharded, exact)
    layer = nn.Sequential(nn.Linear(12, 10, bias=False))
    layer[0].weight.data.copy_(w)
    parallelize_module(layer, mesh["inner"], {"0": ColwiseParallel()})
    fully_shard(layer, mesh=mesh["outer"])
    for quantizer in (*SUMMED, Ternary(), *BY_ROWS):
        exact = quantizer not in SUMMED
        assert_projects_like_one_process(quantizer, w, layer[0].weight.detach(), exact)


def test_two_dimensional_meshes_replicas_and_tensor_parallel_layers(tmp_path):
    run_on_ranks(project_on_a_square_of_ranks, 4, tmp_path)


def meet_bad_weights():
    from torch.distributed.tensor import DTensor, Partial, Shard

    w = weights_of_kind("normal", (6, 4))
    sharded = shard(w, Shard(0))
    torch.testing.assert_close(distance(sharded, Binary()), distance(w, Binary()))
    w[0, 0] = torch.nan  # on the first rank only
    with pytest.raises(ValueError, match=r"Binary\(\): 1 of 24 weights are NaN or infinite"):
        Binary().project(shard(w, Shard(0)))
    with pytest.raises(ValueError, match=r"PerGroup\(size=3\) does not divide"):
        Binary(granularity=PerGroup(3)).split(sharded)
    sums = DTensor.from_local(w, sharded.device_mesh, [Partial()])
    with pytest.raises(ValueError, match=r"Ternary\(\): weights placed as .*sums not yet taken"):
        Ternary().split_finite(sums)


def test_bad_weights_are_refused_by_every_rank(tmp_path):
    run_on_ranks(meet_bad_weights, 2, tmp_path)


def project_channels_last():
    from torch.distributed.tensor import DTensor, Shard

    images = weights_of_kind("normal", (6, 3, 2, 2))
    mesh = shard(images, Shard(0)).device_mesh
    mine = images.chunk(2)[torch.distributed.get_rank()].to(memory_format=torch.channels_last)
    sharded = DTensor.from_local(mine, mesh, [Shard(0)])
    for quantizer in (Ternary(), Binary(), Binary(granularity=PerChannel())):
        assert_projects_like_one_process(quantizer, images, sharded, quantizer != Binary())


def test_the_memory_format_of_a_shard_is_kept(tmp_path):
    run_on_ranks(project_channels_last, 2, tmp_path)
