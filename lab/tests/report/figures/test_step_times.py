"""The tables of a profiled step."""

import json

import pytest

from binaryrelax_lab.report.figures.step_times import profile_tables


def profiled(network, variant, wall):
    """A record of a profile, made of a few kernels."""
    from binaryrelax_lab.studies.bench.least_step_time import Kind, Rates, Work
    from binaryrelax_lab.studies.bench.step_profile import breakdown

    events = [("sm90_xmma_fprop", 60.0), ("sum_magnitudes", 6.0), ("Memset (Device)", 2.0)]
    work = {
        Kind.PRODUCTS: Work(bytes=10_000_000, operations=2_000_000_000),
        Kind.UPDATE: Work(bytes=3_000_000),
    }
    parts = breakdown(events, wall, work, Rates(1e12, 1e14), num_steps=1)
    return {"network": network, "variant": variant, **parts}


def test_profile_is_shown_as_a_table_for_each_network():
    pytest.importorskip("triton")
    records = [
        profiled(network, variant, wall)
        for network, wall in (("resnet20", 80.0), ("vgg16", 64.0))
        for variant in ("binary", "ternary-exact")
    ]
    profile = {"steps": 20, "bytes_per_second": 1e12, "operations_per_second": 1e14}
    content = {
        "environment": {"device": "a device", "torch": "2.11.0"},
        "profile": {**profile, "records": records},
    }
    text = profile_tables(json.loads(json.dumps(content)))
    lines = text.splitlines()
    assert "| resnet20, 1 bit: 80 µs, 3 kernels and copies | time | share |" in lines[0]
    products = "60.0 µs | 75.0 % | 10.0 MB, 2.0 GFLOP | 20.0 µs | 3.0 |"
    assert f"| convolutions and matrix products | {products}" in lines
    assert "| optimizer and relaxation | 6.0 µs | 7.5 % | 3.0 MB | 3.0 µs | 2.0 |" in lines
    update = "6.0 µs | 9.4 % | 3.0 MB | 3.0 µs | 2.0 |"
    assert "| memory copies and sets | 2.0 µs | 2.5 % | - | - | - |" in lines
    assert "| idle between kernels | 12.0 µs | 15.0 % | - | - | - |" in lines
    assert f"| *optimizer and relaxation, exact ternary* | {update}" in lines
    assert "Under the profiler, kernels add up to 4 µs more than the step." in lines
    assert "1.00 TB/s" in lines[-1] and "100 TFLOP/s" in lines[-1]


def test_a_profile_that_is_not_there_is_said():
    assert profile_tables({"environment": {}}) == "Not measured yet."
    assert profile_tables({"profile": None}) == "Not measured yet."
