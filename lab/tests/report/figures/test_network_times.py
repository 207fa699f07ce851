"""Whole networks beside other engines: tables, aims and the picture."""

import pytest
from lab.tests.support.made_up_networks import PROFILED, evidence_of, made_up_networks

from binaryrelax_lab.report.drawing import figure_bytes
from binaryrelax_lab.report.figures import (
    network_aims,
    network_costs,
    network_profile,
    network_times,
    packed_times,
)


@pytest.fixture
def evidence(tmp_path):
    return evidence_of(tmp_path, made_up_networks(), PROFILED)


@pytest.fixture
def alone(tmp_path):
    """Of our runtime alone, without engines beside it."""
    content = made_up_networks(first_answers=[], accuracies=[])
    content["records"] = [r for r in content["records"] if "ours" in r["engine"]]
    return evidence_of(tmp_path, content, PROFILED)


def test_summary_names_the_best_of_the_others(evidence):
    head, _, row, *_, machine = network_times.summary(evidence).splitlines()
    assert head.startswith(
        "| one image, ms | torch float32 | best float32 | best int8 | ours, fast"
    )
    assert row == (
        "| ResNet-20, 32 px | 8.00 | 3.00 (ONNX Runtime) | 1.50 (OpenVINO) | 1.00 / 1.00 "
        "| 2.00 / 2.00 |"
    )
    assert "a CPU (avx2), 2 threads." in machine and "Others used the machine" in machine


def test_ratios_are_to_the_best_int8_and_the_best_float32_engine(evidence):
    lines = network_times.ratios(evidence).splitlines()
    assert lines[2:4] == [
        "| ResNet-20, 32 px | 1 | 1.50× / 1.50× | 1.50× / 1.50× |",
        "| ResNet-18, 224 px | 1 | 0.75× / 0.75× | 0.75× / 0.75× |",
    ]
    assert len(lines) == 6


def test_the_first_sentences_say_how_often_ours_is_ahead(evidence):
    words = network_times.in_short(evidence)
    assert network_times.ahead(evidence).startswith(
        "`fast` ahead of the best int8 engine in 2 of 4"
    )
    assert "0.75 to 1.50 times as fast as the best int8 engine; it is ahead in 2 of 4" in words


def test_calibration_is_shown_as_the_time_that_it_saves(tmp_path, evidence):
    assert network_times.calibration(evidence) == "Not measured yet."
    content = made_up_networks()
    content["records"] += [
        record | {"engine": "ours, fast, not calibrated", "seconds": 2 * record["seconds"]}
        for record in content["records"]
        if record["engine"] == "ours, fast"
    ]
    lines = network_times.calibration(evidence_of(tmp_path, content, PROFILED)).splitlines()
    assert lines[2] == "| ResNet-20, 32 px | 1 | 2.00× | 2.00× |"


def test_every_engine_has_a_row_for_each_batch_and_ours_one_for_each_width(evidence):
    text = network_times.all_times(evidence)
    assert "| one image, ms: least / median | ResNet-20, 32 px | ResNet-18, 224 px |" in text
    assert "| 16 images, ms: least / median |" in text
    assert "| ours, fast, ternary | 1.00 / 2.00 | 2.00 / 2.00 |" in text
    assert "| OpenVINO int8 | 24.00 / 48.00 | 24.00 / 48.00 |" in text
    assert "| ours, exact, 1 bit | 1e-07 | 1e-07 |" in network_times.errors(evidence)


def test_aims_say_yes_and_no(evidence):
    rows = network_aims.aims(evidence).splitlines()[2:]
    reached = {row.split(" | ")[0].strip("| "): row.rsplit("| ", 1)[1].strip(" |") for row in rows}
    found = [answer for words, answer in reached.items() if "ResNet-20, 32 px" in words]
    assert found == ["yes"]
    everywhere = next(row for row in rows if "everywhere" in row)
    assert "0.75× (ResNet-18, 224 px, batch 1, exact, 1 bit); below 1× in 4 of 16" in everywhere
    assert "fast` and `exact`, at most | 0.1 | -0.30 | **no** |" in "\n".join(rows)
    assert "| 1.50 MB | 1.40 MB | yes |" in "\n".join(rows)
    assert "| 10× | 9.0× | **no** |" in "\n".join(rows)


def test_costs_are_told_in_bytes_and_milliseconds(evidence):
    assert network_costs.files(evidence).splitlines()[2] == (
        "| ResNet-18, 10 classes | 44,000 | - | - | - | 1,400 (31.4×) | - |"
    )
    assert "| binaryrelax_native 0.2.0 | 0.4 MB | 1.0 MB |" in network_costs.runtimes(evidence)
    assert "| ours, fast | 100 ms | 100 ms | 32 MB |" in network_costs.first_answers(evidence)
    accuracies = network_costs.accuracies(evidence)
    assert "| ResNet-20, 10 classes, 1 bit | 92.00 | 91.70 |" in accuracies
    assert accuracies.endswith("Percent of 10,000 test images.")


def test_a_profile_gives_shares_of_the_peak_and_the_time_at_it(evidence):
    text = network_profile.layers(evidence)
    assert "| conv1 | 50.0 | 500.0 µs | 100 | 50 % |" in text
    assert "| image: to bytes |  | 100.0 µs |  |  |" in text
    assert "| all else |  | 1.0 µs |  |  |" in text
    assert network_profile.peak(evidence) == "200 · 10⁹ multiply-additions a second (avx2)"
    row = network_profile.floors(evidence).splitlines()[2]
    assert row.startswith("| ResNet-20, 32 px | 50 | 0.12 ms | 1.00 ms | 1.50 ms | 12 % | 8 % |")


def test_what_was_not_measured_is_a_hyphen_or_said(alone):
    assert "| ResNet-20, 32 px | - | - | - | 1.00 / 1.00 |" in network_times.summary(alone)
    assert "| ResNet-20, 32 px | 1 | - / - | - / - |" in network_times.ratios(alone)
    assert "No engine in int8 was there" in network_times.in_short(alone)
    assert network_costs.accuracies(alone) == "Not measured yet."
    assert network_costs.first_answers(alone) == "Not measured yet."
    assert network_aims.aims(alone).splitlines()[2].endswith("| - |")
    assert figure_bytes(network_times.picture(alone))


def test_the_short_table_of_the_readme_stands_on_both_benchmarks(evidence):
    engines = network_times.MeasuredNetworks.of(evidence).times(1)
    cells = [packed_times._beside_the_best(e, "1 bit") for e in engines.values()]
    assert cells == ["1.50× (fast), 1.50× (exact)", "0.75× (fast), 0.75× (exact)"]


def test_an_accelerated_model_is_held_against_torch(tmp_path):
    content = made_up_networks()
    [record] = [r for r in content["records"] if r["engine"] == "torch float32"][:1]
    slower = {"engine": "accelerated model, exact", "seconds": 2 * record["seconds"]}
    content["records"].append(record | slower)
    text = network_aims.aims(evidence_of(tmp_path, content))
    assert "0.50× (ResNet-20, 32 px, batch 1, accelerated model, exact) | **no** |" in text
