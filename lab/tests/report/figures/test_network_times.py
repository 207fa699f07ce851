"""Packed networks beside int8, as tables."""

import json

import pytest

from binaryrelax_lab.report.figures import Evidence
from binaryrelax_lab.report.figures.network_times import (
    NETWORKS,
    OURS,
    TORCH,
    all_engines,
    behind,
    beside_int8,
    summary,
)

SECONDS = {TORCH: 4e-3, "packed, exact": 3e-3, OURS: 2e-3, "OpenVINO int8": 0.5e-3}


@pytest.fixture
def evidence(tmp_path):
    """Of one network and two batch sizes, made without ONNX Runtime."""
    records = [
        {
            "file": "net.safetensors",
            "network": "resnet20",
            "weights": "ternary",
            "batch": batch,
            "engine": engine,
            "seconds": batch * seconds,
            "error": 1e-7,
        }
        for batch in (1, 16)
        for engine, seconds in SECONDS.items()
    ]
    content = {
        "machine": {"cpu": "a CPU", "threads": 2, "torch": "2.13.0"},
        "native": "avx2",
        "engines": {"OpenVINO": "2026.4"},
        "repetitions": 15,
        "machine_was_shared": True,
        "records": records,
    }
    path = tmp_path / NETWORKS
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(content))
    return Evidence(tmp_path)


def test_summary_has_a_row_for_each_network_and_one_image_only(evidence):
    lines = summary(evidence).splitlines()
    assert lines[0] == (
        "| one image, ms | torch float32 | ours, fast | ONNX Runtime int8 | OpenVINO int8 |"
    )
    assert lines[2:4] == ["| ResNet-20, ternary | 4.00 | 2.00 | - | 0.50 |", ""]


def test_page_has_a_table_for_each_batch_and_says_that_the_machine_was_shared(evidence):
    text = all_engines(evidence)
    assert "| one image, ms (× torch) | ResNet-20, ternary | error |" in text
    assert "| 16 images, ms (× torch) | ResNet-20, ternary | error |" in text
    assert "| packed, exact | 3.00 (1.3×) | 1e-07 |" in text
    assert "| packed, exact | 48.00 (1.3×) | 1e-07 |" in text
    assert "OpenVINO 2026.4; the least of 15" in text and "Others used the machine" in text


def test_how_far_behind_int8_we_are_is_said_for_one_image(evidence):
    assert behind(evidence) == "4.0× (ResNet-20, ternary)"
    assert beside_int8(evidence, "ResNet-20") == ["-", "0.2×"]
