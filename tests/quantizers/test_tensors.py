"""Shapes, strides, autograd and memory: what goes in comes out, and nothing else changes."""

import pytest
import torch
from torch import nn

from binaryrelax.quantizers import (
    Binary,
    OneStepLloyd,
    PerChannel,
    PerGroup,
    PerLayer,
    Ternary,
    TernaryAbsMean,
    TernaryThreshold,
    Uniform,
    distance,
)

from .cases import (
    ALL_QUANTIZERS,
    at_every_granularity,
    random_weights,
    same_bits,
    supported_dtypes,
    with_granularity,
)

every_quantizer = pytest.mark.parametrize("quantizer", ALL_QUANTIZERS, ids=repr)

DENSE = {
    "channels_last": lambda w: w.contiguous(memory_format=torch.channels_last),
    "transposed": lambda w: w.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0),
    "matrix transposed": lambda w: w.reshape(w.shape[0], -1).t().contiguous().t(),
    "channels_last_3d": lambda w: w.unsqueeze(2).contiguous(memory_format=torch.channels_last_3d),
}
NOT_DENSE = {
    "every second column": lambda w: w.repeat_interleave(2, -1)[..., ::2],
    "inner rows": lambda w: torch.cat([w, w, w])[w.shape[0] : 2 * w.shape[0]],
    "inner columns of a matrix": lambda w: w.reshape(w.shape[0], -1).repeat(1, 3)[:, 48:96],
    "matrix transposed, inner columns": lambda w: w.reshape(-1, 6).repeat(2, 1)[3:51].t(),
    "expanded": lambda w: w[:, :1].expand(w.shape),
}


def assert_projects_like_a_copy(quantizer, w):
    before = w.clone()
    scale, codes = quantizer.split(w)
    projected = quantizer.project(w)
    assert same_bits(w, before), quantizer
    assert codes.stride() == projected.stride() == torch.empty_like(w).stride(), quantizer
    assert codes.dtype == projected.dtype == scale.dtype == w.dtype, quantizer
    plain_scale, plain_codes = quantizer.split(w.contiguous())
    assert same_bits(codes, plain_codes), quantizer
    assert same_bits(scale, plain_scale), quantizer
    assert same_bits(projected, quantizer.project(w.contiguous())), quantizer


@every_quantizer
@pytest.mark.parametrize("cast_to", [torch.bfloat16, torch.float16])
def test_autocast_to_any_half_type_changes_nothing(quantizer, cast_to):
    for dtype in supported_dtypes(quantizer):
        w = random_weights(16, 12).to(dtype)
        with torch.autocast("cpu", cast_to):
            inside = quantizer.project(w)
        assert same_bits(inside, quantizer.project(w)), dtype


@every_quantizer
@pytest.mark.parametrize("layout", [*DENSE, *NOT_DENSE])
def test_memory_format_is_kept_and_never_changes_the_answer(quantizer, layout):
    for dtype in (torch.float64, torch.bfloat16):  # the sums that round, and a narrow dtype
        w = (DENSE | NOT_DENSE)[layout](random_weights(6, 4, 4, 3, dtype=dtype))
        for variant in at_every_granularity(quantizer):
            assert_projects_like_a_copy(variant, w)


@every_quantizer
def test_strided_vectors_project_like_their_copies(quantizer):
    w = random_weights(301, dtype=torch.float64)
    for view in (w[::3], w.diag().diagonal(), w[:100].flip(0)):
        assert_projects_like_a_copy(quantizer, view)


@every_quantizer
def test_scale_broadcasts_against_the_weight(quantizer):
    w = random_weights(6, 4, 4, 3)
    for granularity, shape in [(PerLayer(), ()), (PerChannel(), (6, 1, 1, 1)), (PerGroup(2), None)]:
        scale, codes = with_granularity(quantizer, granularity).split(w)
        assert torch.broadcast_shapes(scale.shape, w.shape) == w.shape == codes.shape
        assert shape is None or scale.shape == shape


@every_quantizer
def test_parameters_are_accepted_left_alone_and_detached(quantizer):
    for dtype in supported_dtypes(quantizer):
        w = random_weights(4, 6, dtype=dtype)
        for variant in at_every_granularity(quantizer):
            parameter = nn.Parameter(w.clone())
            for result in (*variant.split(parameter), variant.project(parameter)):
                assert not result.requires_grad
                assert type(result) is torch.Tensor
                assert result.data_ptr() != parameter.data_ptr()
            assert same_bits(parameter.detach(), w)
            assert parameter.grad is None


@every_quantizer
@pytest.mark.parametrize("shape", [(0,), (0, 4), (3, 0), (2, 0, 3)], ids=str)
def test_empty_weights(quantizer, shape):
    for dtype in supported_dtypes(quantizer):
        w = torch.empty(shape, dtype=dtype, requires_grad=True)
        for variant in at_every_granularity(quantizer):
            scale, codes = variant.split(w)
            projected = variant.project(w)
            assert codes.shape == projected.shape == torch.Size(shape)
            assert codes.dtype == projected.dtype == scale.dtype == dtype
            assert torch.broadcast_shapes(scale.shape, w.shape) == w.shape
            assert not projected.requires_grad
            assert distance(w, variant) == 0


@every_quantizer
@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (1, 1, 1, 1)], ids=str)
def test_a_single_weight_lies_in_every_q(quantizer, shape):
    for dtype in supported_dtypes(quantizer):
        for value in (1.5, -0.3, 0.0, 0.1):
            w = torch.full(shape, value, dtype=dtype)
            projected = quantizer.project(w)
            slack = 2 * torch.finfo(dtype).eps  # scale * 0.3 rounds
            torch.testing.assert_close(projected, w, rtol=slack, atol=0)
            assert same_bits(quantizer.project(projected), projected)


@pytest.mark.parametrize("granularity", [PerLayer(), PerChannel(), PerGroup(1)], ids=repr)
def test_vectors_have_one_weight_per_channel(granularity):
    scale, _ = Binary(granularity=granularity).split(random_weights(5))
    assert scale.shape == (() if granularity == PerLayer() else (5,))


@every_quantizer
def test_distance_is_the_norm_of_the_residual(quantizer):
    for dtype in supported_dtypes(quantizer):
        w = random_weights(5, 6, dtype=dtype).requires_grad_()
        for variant in at_every_granularity(quantizer):
            found = distance(w, variant)
            residual = w.detach().double() - variant.project(w).double()
            assert found.shape == () and not found.requires_grad
            torch.testing.assert_close(found, residual.norm().to(found.dtype))


def test_distance_of_a_point_of_q_is_zero():
    assert distance(torch.tensor([0.1, -0.1, 0.0]), Ternary()) == 0


def test_distance_of_half_precision_weights_does_not_overflow():
    w = torch.tensor([30_000.0, -10.0]).half().repeat(50)
    assert distance(w, Binary()).isfinite()


@pytest.mark.parametrize(
    "quantizer",
    [
        Binary(),
        Ternary(),
        TernaryThreshold(),
        TernaryAbsMean(),
        Uniform(bits=3),
        OneStepLloyd(bits=3),
    ],
    ids=repr,
)
def test_number_of_threads_does_not_change_the_answer(quantizer):
    w = random_weights(3, 70_000)
    for granularity in (PerLayer(), PerChannel()):
        alone = with_granularity(quantizer, granularity).split(w)
        torch.set_num_threads(2)
        try:
            together = with_granularity(quantizer, granularity).split(w)
        finally:
            torch.set_num_threads(1)
        assert same_bits(together[0], alone[0])
        assert same_bits(together[1], alone[1])
