"""A layer's weights at one moment, as every picture of them shows: shares, marks of Q, a caption.

Heights are square roots of shares, so that 2 % and 50 % both show.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from binaryrelax_lab.report.epoch_chart import Axis
from binaryrelax_lab.results import Snapshot, WeightHistograms

LEFT, RIGHT, TOP, BOTTOM = 3, 237, 22, 146  # of the bars in an SVG, in pixels
CODE_NAMES = {-1.0: "−s", 0.0: "0", 1.0: "+s"}


@dataclass(frozen=True)
class CodeMark:
    """A point of Q, and which part of the weights is there."""

    code: float
    share: float

    @property
    def name(self) -> str:
        """In units of the scale."""
        return CODE_NAMES.get(self.code, f"{self.code:+g}s")

    @property
    def text(self) -> str:
        """The share, if it is worth a word."""
        return f"{100 * self.share:.0f} %" if self.share > 0.1 else ""


@dataclass(frozen=True)
class WeightPanel:
    """The weights of a layer after one epoch."""

    histograms: WeightHistograms
    snapshot: Snapshot

    @property
    def centres(self) -> list[float]:
        """Those of the bins."""
        first, width = self.histograms.first_centre, self.histograms.bin_width
        return [first + width * index for index in range(len(self.snapshot.counts))]

    @property
    def shares(self) -> list[float]:
        """Which part of the weights lies in each bin."""
        return [count / self.histograms.num_weights for count in self.snapshot.counts]

    @property
    def marks(self) -> list[CodeMark]:
        """One for each point of Q."""
        first, width = self.histograms.first_centre, self.histograms.bin_width
        codes = self.histograms.codebook
        return [CodeMark(code, self.shares[round((code - first) / width)]) for code in codes]

    @property
    def phase(self) -> str:
        """The phase and its λ, in words."""
        strength = self.snapshot.strength or 0.0
        shown = "∞" if math.isinf(strength) else f"{strength:.3g}"
        return f"Phase {'I' * (self.snapshot.phase or 0)}, λ = {shown}"

    @property
    def caption(self) -> str:
        """When it was, in words."""
        if self.snapshot.epoch is None:
            return "before: the float network"
        return f"after epoch {self.snapshot.epoch + 1}: {self.phase}"

    @property
    def caption_below_a_slider(self) -> str:
        """The same where the epoch is told already."""
        if self.snapshot.epoch is None:
            return self.caption
        return f"{self.phase}, distance to Q {self.snapshot.distance:.3g}"


def panels_of(histograms: WeightHistograms) -> list[WeightPanel]:
    """One for each moment, from the float network on."""
    return [WeightPanel(histograms, snapshot) for snapshot in histograms.snapshots]


def tallest_share(layers: Iterable[Sequence[WeightPanel]]) -> float:
    """The largest part of a layer's weights that ever shared a bin: the top of the scale."""
    return max((max(panel.shares) for panels in layers for panel in panels), default=1.0)


@dataclass(frozen=True)
class PanelDrawing:
    """A panel in an SVG: `across` maps weights and `up` heights onto pixels."""

    panel: WeightPanel
    across: Axis
    up: Axis

    @property
    def outline(self) -> str:
        """The path around the bars."""
        half, base = self.panel.histograms.bin_width / 2, self.up.start
        bars = zip(self.panel.centres, self.panel.shares, strict=True)
        steps = [f"V{self.height(share):g}H{self.across(x + half):g}" for x, share in bars]
        return f"M{self.across.start},{base}{''.join(steps)}V{base}Z"

    def height(self, share: float) -> float:
        """The upper end of a bar."""
        return self.up(math.sqrt(share))

    def as_json(self) -> dict[str, object]:
        """What a script puts in the place of what stands there."""
        marks = self.panel.marks
        return {
            "outline": self.outline,
            "caption": self.panel.caption_below_a_slider,
            "shares": [{"y": self.height(mark.share), "text": mark.text} for mark in marks],
        }


def drawings_of(layers: Sequence[WeightHistograms]) -> list[list[PanelDrawing]]:
    """For each layer its panels in an SVG; all on the same scale."""
    panels = [panels_of(histograms) for histograms in layers]
    up = Axis(0, math.sqrt(tallest_share(panels)), BOTTOM, TOP)
    return [[PanelDrawing(panel, _across(panel), up) for panel in moments] for moments in panels]


def _across(panel: WeightPanel) -> Axis:
    edge = abs(panel.histograms.first_centre) + panel.histograms.bin_width / 2
    return Axis(-edge, edge, LEFT, RIGHT)
