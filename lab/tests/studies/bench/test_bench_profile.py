"""What the profile of a step counts and how it sorts kernels; the profile itself needs a GPU."""

import json

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

pytest.importorskip("triton")

from binaryrelax.kernels.magnitude_sums import sum_magnitudes
from binaryrelax.kernels.proximal_map import write_relaxed
from binaryrelax_lab.studies.bench.least_step_time import (
    Kind,
    Rates,
    Work,
    count_pass,
    count_step,
    least_work,
)
from binaryrelax_lab.studies.bench.step_profile import breakdown, kind_of, read_events
from binaryrelax_lab.studies.bench.training_steps import recipe_of

SGD = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous "
    "namespace)::FusedOptimizerTensorListMetadata<2>, at::native::(anonymous namespace)::"
    "FusedSgdMathFunctor<float, 2>, double, float*, double>(...)"
)
FILL = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, "
    "std::array<char*, 1ul> >(int, at::native::FillFunctor<float>, std::array<char*, 1ul>)"
)
FPROP = (
    "sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x64_warpgroup"
    "size1x1x1_g1_execute_segment_k_off_kernel__5x_cudnn"
)
KERNELS = {
    FPROP: Kind.PRODUCTS,
    "sm80_xmma_wgrad_implicit_gemm_indexed_bf16bf16_bf16f32_f32_nhwckrsc_nhwc": Kind.PRODUCTS,
    "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_bf16_s16816dgrad_optimized>": Kind.PRODUCTS,
    "void cudnn::ops::nchwToNhwcKernel<__nv_bfloat16, __nv_bfloat16, float>": Kind.PRODUCTS,
    "void implicit_convolve_sgemm<float, float, 1024, 5, 5, 3, 3, 3, 1>": Kind.PRODUCTS,
    "nvjet_tst_64x8_64x16_4x1_v_bz_TNT": Kind.PRODUCTS,
    "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16>": Kind.PRODUCTS,
    "triton_tem_fused_addmm_3": Kind.PRODUCTS,
    "convolve_few_channels_0": Kind.PRODUCTS,
    "weight_gradient_of_few_channels_1": Kind.PRODUCTS,
    "triton_poi_fused__to_copy_convolution_0": Kind.COMPILED,
    "triton_red_fused__native_batch_norm_legit_functional_convolution_backward_7": Kind.COMPILED,
    SGD: Kind.UPDATE,
    sum_magnitudes.__name__: Kind.UPDATE,
    write_relaxed.__name__: Kind.UPDATE,
    "Memcpy DtoD (Device -> Device)": Kind.COPIES,
    "Memset (Device)": Kind.COPIES,
    FILL: Kind.OTHER,
    "a_kernel_of_the_future": Kind.OTHER,
}


@pytest.mark.parametrize(("name", "kind"), KERNELS.items(), ids=lambda value: str(value)[:30])
def test_kernels_are_known_by_their_names(name, kind):
    assert kind_of(name) is kind


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_counts_of_a_small_network_are_those_by_hand(device):
    with torch.device(device):
        network = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(inplace=True),
            nn.Conv2d(8, 4, 3, stride=2, padding=1, bias=False),
            nn.Flatten(),
            nn.Linear(16, 5),
        )
        counts = count_pass(network, torch.zeros(2, 3, 4, 4))
    first = 2 * (2 * 8 * 4 * 4) * (3 * 3 * 3)  # two for each output and weight that makes it
    second = 2 * (2 * 4 * 2 * 2) * (8 * 3 * 3)
    last = 2 * (2 * 5) * 16
    assert counts.operations == 2 * first + 3 * second + 3 * last  # images need no gradient
    assert counts.product_elements == (
        2 * (96 + 256 + 216) + 3 * (256 + 32 + 288) + 3 * (32 + 10 + 80)
    )
    assert counts.product_weights == 216 + 288 + 80
    assert counts.normalised == 256
    assert counts.parameters == 216 + 2 * 8 + 288 + 80 + 5
    assert counts.quantized == 0
    assert not any(module._forward_hooks for module in network.modules())


def test_counts_of_resnet20_are_those_of_its_paper():
    """0.27 million parameters, 40.5 million multiplications for one image."""
    recipe = recipe_of("resnet20", "binary")
    counts = count_step(recipe)
    assert counts.parameters == 269_722
    assert counts.product_weights == counts.quantized + 64 * 10  # the last layer stays float
    assert counts.operations == pytest.approx(3 * 2 * 40.55e6 * recipe.batch_size, rel=0.01)
    features = 7 * 16 * 32**2 + 6 * 32 * 16**2 + 6 * 64 * 8**2
    assert counts.normalised == recipe.batch_size * features


def test_variants_of_a_network_have_the_same_work():
    binary, ternary = (count_step(recipe_of("vgg16", v)) for v in ("binary", "ternary-exact"))
    assert binary == ternary
    work = least_work(binary)
    assert work[Kind.UPDATE].bytes == 20 * binary.parameters + 8 * binary.quantized
    assert work[Kind.PRODUCTS].operations == binary.operations
    assert not {Kind.COPIES, Kind.OTHER} & set(work)


def test_a_floor_is_what_takes_longer():
    rates = Rates(bytes_per_second=1e12, operations_per_second=1e14)
    assert Work(bytes=3_000_000).microseconds(rates) == pytest.approx(3)
    assert Work(3_000_000, operations=10**9).microseconds(rates) == pytest.approx(10)


def test_times_of_a_step_add_up():
    rates = Rates(bytes_per_second=1e12, operations_per_second=1e14)
    events = [(FPROP, 60.0), (SGD, 8.0), (SGD, 12.0), (FILL, 2.0), ("unknown", 4.0)] * 2
    parts = breakdown(events, 100.0, {Kind.UPDATE: Work(5_000_000)}, rates, num_steps=2)
    parts = json.loads(json.dumps(parts, allow_nan=False))
    kinds = {part["kind"]: part for part in parts["kinds"]}
    assert list(kinds) == [str(kind) for kind in Kind]
    assert kinds["optimizer and relaxation"] == {
        "kind": "optimizer and relaxation", "microseconds": 20, "bytes": 5_000_000, "operations": 0,
        "floor_microseconds": 5,
    }  # fmt: skip
    assert kinds["other"]["floor_microseconds"] is None
    assert parts["kernels"] == 5
    assert (parts["idle_microseconds"], parts["surplus_microseconds"]) == (14, 0)
    assert parts["longest_others"][0] == {"name": "unknown", "microseconds": 4}


def test_kernels_that_overlap_leave_nothing_idle():
    rates = Rates(bytes_per_second=1e12, operations_per_second=1e14)
    parts = breakdown([(FPROP, 60.0), (SGD, 50.0)], 100.0, {}, rates, num_steps=1)
    assert (parts["idle_microseconds"], parts["surplus_microseconds"]) == (0, 10)


def test_only_work_of_the_device_is_read_from_a_trace(tmp_path):
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        torch.ones(8).add(1)
    path = tmp_path / "trace.json"
    profiler.export_chrome_trace(str(path))
    trace = json.loads(path.read_text())
    on_host = [e for e in trace["traceEvents"] if e.get("cat") == "cpu_op"]
    assert on_host and all("dur" in event for event in on_host)
    assert read_events(path) == []
    trace["traceEvents"] += [
        {"ph": "X", "cat": "kernel", "name": SGD, "ts": 1.0, "dur": 4.5},
        {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy DtoD", "ts": 6.0, "dur": 1.5},
        {"ph": "X", "cat": "gpu_user_annotation", "name": "a range", "ts": 1.0, "dur": 9.0},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaGraphLaunch", "ts": 0.0, "dur": 9.0},
    ]
    path.write_text(json.dumps(trace))
    assert read_events(path) == [(SGD, 4.5), ("Memcpy DtoD", 1.5)]
