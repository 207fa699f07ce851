"""What every picture of a layer's weights shows."""

import math

import pytest

from binaryrelax_lab.report.weight_panels import WeightPanel, drawings_of, panels_of, tallest_share
from binaryrelax_lab.results import Snapshot, WeightHistograms

BEFORE = Snapshot(None, None, 0.0, scale=0.5, distance=9.0, counts=(5, 20, 50, 20, 5))
RELAXED = Snapshot(1, 1, 12.3456, scale=0.5, distance=1.2345, counts=(0, 45, 8, 47, 0))
HARD = Snapshot(2, 2, math.inf, scale=0.5, distance=0.0, counts=(0, 60, 0, 40, 0))
LAYER = WeightHistograms("conv", 100, (-1.0, 1.0), -2.0, 1.0, (BEFORE, RELAXED, HARD))


def test_shares_centres_and_marks_are_those_of_the_counts():
    panel = WeightPanel(LAYER, RELAXED)
    assert panel.centres == [-2, -1, 0, 1, 2]
    assert panel.shares == [0, 0.45, 0.08, 0.47, 0]
    assert [(m.code, m.name, m.share, m.text) for m in panel.marks] == [
        (-1, "−s", 0.45, "45 %"),
        (1, "+s", 0.47, "47 %"),
    ]
    assert tallest_share([panels_of(LAYER)]) == 0.6


def test_a_small_share_is_not_worth_a_word():
    layer = WeightHistograms("conv", 100, (-2.0, 0.0), -2.0, 1.0, (BEFORE,))
    assert [(m.name, m.text) for m in panels_of(layer)[0].marks] == [("-2s", ""), ("0", "50 %")]


def test_captions_tell_the_epoch_the_phase_and_the_strength():
    assert [panel.caption for panel in panels_of(LAYER)] == [
        "before: the float network",
        "after epoch 2: Phase I, λ = 12.3",
        "after epoch 3: Phase II, λ = ∞",
    ]
    assert [panel.caption_below_a_slider for panel in panels_of(LAYER)] == [
        "before: the float network",
        "Phase I, λ = 12.3, distance to Q 1.23",
        "Phase II, λ = ∞, distance to Q 0",
    ]


def test_drawings_of_all_layers_have_the_same_scale():
    flat = WeightHistograms("fc", 100, (-1.0, 1.0), -2.0, 1.0, (BEFORE,))
    [[*_, hard], [other]] = drawings_of([LAYER, flat])
    assert hard.height(0.6) == 22 and hard.height(0) == 146
    assert other.height(0.15) == pytest.approx((22 + 146) / 2)
    assert hard.outline == "M3,146V146H49.8V22H96.6V146H143.4V44.8H190.2V146H237V146Z"
    assert hard.as_json()["shares"] == [{"y": 22, "text": "60 %"}, {"y": 44.8, "text": "40 %"}]
