"""README and docs with their figures: what stands between markers, and every picture.

A page says where: what is between `<!-- figures: NAME -->` and `<!-- end -->` is replaced. A marker
at the beginning of a line marks paragraphs of their own; any other, as in a cell of a table, words
within a line. All else on a page is written by hand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure as Drawing

from binaryrelax_lab.report.drawing import figure_bytes
from binaryrelax_lab.report.figures import (
    chosen_layers,
    cifar_tables,
    comparisons,
    demo,
    language_runs,
    last_epochs,
    network_aims,
    network_costs,
    network_profile,
    network_sizes,
    network_times,
    packed_checks,
    packed_times,
    paper_cells,
    paper_claims,
    paper_gains,
    phase_one_decay,
    phases,
    projection_times,
    results_in_short,
    step_times,
    theory_tables,
    tuned_gains,
    tuning,
    watched_steps,
    way_into_q,
)
from binaryrelax_lab.report.figures.evidence import Evidence

Picture = Callable[[Evidence], bytes]
StudyDrawing = Callable[[Any], Drawing]  # from the numbers of its JSON file

DRAWN = (comparisons, last_epochs, network_times, phase_one_decay, phases, watched_steps)
WRITTEN = (
    *(demo, results_in_short, cifar_tables, *DRAWN, network_sizes, tuning, theory_tables),
    *(tuned_gains, paper_cells, paper_gains, paper_claims),
    *(projection_times, step_times, packed_times, packed_checks),
    *(network_aims, network_costs, network_profile),
    *(chosen_layers, language_runs),
)
SECTIONS: dict[str, Callable[[Evidence], str]] = {
    name: section for subject in WRITTEN for name, section in subject.SECTIONS.items()
}
MARKED = re.compile(
    r"(?P<begins_line>^)?(?P<marker><!-- figures: (?P<name>[\w-]+) -->).*?<!-- end -->",
    re.DOTALL | re.MULTILINE,
)


def stale_files(evidence: Evidence, pictures: Mapping[str, Picture]) -> dict[Path, bytes]:
    """What pages and pictures should hold, of those that hold something else or are missing."""
    wanted = {page: filled(page.read_text(), evidence).encode() for page in pages(evidence.root)}
    wanted |= {picture_file(evidence.root, name): draw(evidence) for name, draw in pictures.items()}
    return {
        path: content
        for path, content in wanted.items()
        if not path.is_file() or path.read_bytes() != content
    }


def pages(root: Path) -> list[Path]:
    """README and the pages of the site."""
    docs = root / "docs"
    found = (page for page in docs.rglob("*.md") if not page.is_relative_to(docs / "assets"))
    return [root / "README.md", *sorted(found)]


def picture_file(root: Path, name: str) -> Path:
    """Where a picture is: one without an ending is a PNG file."""
    return root / "docs" / "images" / (name if name.endswith(".svg") else f"{name}.png")


def filled(text: str, evidence: Evidence) -> str:
    """A page with every marked section made anew."""

    def section(match: re.Match[str]) -> str:
        around = "" if match["begins_line"] is None else "\n\n"
        figures = SECTIONS[match["name"]](evidence)
        return f"{match['marker']}{around}{figures}{around}<!-- end -->"

    return MARKED.sub(section, text)


def all_pictures(of_theory: Mapping[str, StudyDrawing]) -> dict[str, Picture]:
    """Every picture of README and docs by its name in docs/images.

    Args:
        of_theory: what draws the numbers of `results/theory/NAME.json`, by that name.
    """
    pictures = {name: _drawn(draw) for part in DRAWN for name, draw in part.PICTURES.items()}
    pictures |= {f"theory/{name}": _of_numbers(name, draw) for name, draw in of_theory.items()}
    return pictures | {"demo": demo.picture} | way_into_q.PICTURES


def _drawn(draw: Callable[[Evidence], Drawing]) -> Picture:
    return lambda evidence: figure_bytes(draw(evidence))


def _of_numbers(name: str, draw: StudyDrawing) -> Picture:
    return lambda evidence: figure_bytes(draw(evidence.read(f"results/theory/{name}.json")))
