"""The pictures of weights on their way into Q: well-formed, and true to the numbers."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from binaryrelax_lab.report.figures import Evidence
from binaryrelax_lab.report.figures.way_into_q import FILE, PICTURES
from binaryrelax_lab.report.phase_picture import phase_picture
from binaryrelax_lab.report.sliding_animation import HELD_FIRST, HELD_LAST, sliding_animation
from binaryrelax_lab.results.weight_paths import WeightPaths

ROOT = Path(__file__).parents[3]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def paths():
    return WeightPaths.from_json(Evidence(ROOT).read(FILE, "records")[0])


@pytest.mark.parametrize("name", PICTURES)
def test_picture_is_well_formed_small_and_made_for_both_themes(name):
    content = PICTURES[name](Evidence(ROOT))
    assert len(content) < 200_000
    root = ElementTree.fromstring(content)
    assert root.find(f"{SVG}title").text
    assert "prefers-color-scheme:dark" in root.find(f"{SVG}style").text
    assert b"NaN" not in content and b"inf" not in content.replace(b"infin", b"")


def test_a_frame_stands_for_each_moment(paths):
    root = ElementTree.fromstring(sliding_animation(paths))
    frames = len(paths.moments) + HELD_FIRST - 1 + HELD_LAST - 1
    moving = [a for a in root.iter(f"{SVG}animate") if a.get("attributeName") != "opacity"]
    assert len(moving) > 2 * len(paths.moments[0].x)
    assert {len(animate.get("values").split(";")) for animate in moving} == {frames}
    turns = [a for a in root.iter(f"{SVG}animate") if a.get("attributeName") == "opacity"]
    assert len(turns) == frames


def test_what_does_not_move_shows_the_weights_in_q(paths):
    """Who sees no animation sees the last moment: three bars, circles on three lines."""
    root = ElementTree.fromstring(sliding_animation(paths))
    heights = {circle.get("cy") for circle in root.iter(f"{SVG}circle") if circle.get("r") == "2.5"}
    assert len(heights) == 3
    [bars] = [path for path in root.iter(f"{SVG}path") if path.get("class") == "x"]
    tops = re.findall(r"V(\d+)", bars.get("d"))
    assert sum(top != max(tops, key=int) for top in tops) == 3


def test_a_line_stands_for_each_weight_that_is_followed(paths):
    root = ElementTree.fromstring(phase_picture(paths))
    lines = [line for line in root.iter(f"{SVG}polyline") if line.get("class").startswith("path")]
    assert len(lines) == len(paths.moments[0].x)
    ends = {line.get("points").split(",")[-1] for line in lines}
    assert len(ends) == 3
