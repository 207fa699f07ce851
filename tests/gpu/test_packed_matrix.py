"""Products with packed weights on a CUDA device: real sizes, every plan, graphs."""

import pytest
import torch

from tests.kernels.packed import Case

from binaryrelax.kernels.packed_matrix import FewPlan, ManyPlan  # isort: skip

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
HALVES = [torch.bfloat16, torch.float16]
FEW = [
    FewPlan(tiles=1, warps=8, loads=16),
    FewPlan(tiles=1, warps=8, loads=16, early=True),
    FewPlan(tiles=2, warps=8, loads=8, early=True),
    FewPlan(tiles=4, warps=4, loads=8),
    FewPlan(tiles=1, warps=16, loads=4),
    FewPlan(tiles=1, warps=2, loads=16),
]
MANY = [ManyPlan(), ManyPlan(height=32, columns=32), ManyPlan(height=128, columns=128, warps=8)]


@pytest.mark.parametrize("batch", [0, 1, 3, 8, 16, 17, 64, 300])
@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("bits", [1, 2])
def test_product_equals_float64(bits, dtype, batch):
    case = Case(1000, 4096, bits, row_scales=batch % 2 == 1)
    case.assert_product(case.vectors(batch, 4096, dtype=dtype), biased=batch != 3)


@pytest.mark.parametrize("shape", [(1, 1), (7, 27), (65, 511), (130, 4097), (64, 11008), (16, 512)])
@pytest.mark.parametrize("bits", [1, 2])
@pytest.mark.parametrize("batch", [1, 9, 33])
def test_tails(bits, shape, batch):
    case = Case(*shape, bits, row_scales=True)
    case.assert_product(case.vectors(batch, shape[1], dtype=torch.bfloat16), biased=True)


@pytest.mark.parametrize("plan", [*FEW, *MANY], ids=repr)
@pytest.mark.parametrize("inputs", [4096, 8192 + 512, 1000])
@pytest.mark.parametrize("bits", [1, 2])
def test_every_plan(bits, inputs, plan):
    case = Case(200, inputs, bits)
    for batch in (1, 8, 13):
        case.assert_product(case.vectors(batch, inputs, dtype=torch.bfloat16), plan=plan)


def test_unaligned_vectors():
    case = Case(64, 1024, 2)
    case.assert_product(case.vectors(3, 1100, dtype=torch.bfloat16)[:, 3:1027])
    case.assert_product(case.vectors(1024, 5, dtype=torch.float16).T)


@pytest.mark.parametrize("early", [False, True])
def test_a_chain_in_a_graph_gives_the_same_bits(early):
    """Each product reads what the one before has written, also where kernels overlap."""
    first, second = Case(2048, 2048, 1), Case(2048, 2048, 2)
    plan = FewPlan(early=early)
    x = first.vectors(1, 2048, dtype=torch.bfloat16)

    def chain(x):
        for _ in range(8):
            for case in (first, second, first, second):
                x = case.matrix.multiply(x, plan=plan)
            x = x * 2.0**-18
        return x

    expected = chain(x)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        y = chain(x)
    for _ in range(50):
        y.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(y, expected)
