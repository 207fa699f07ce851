"""The walks through the code lead through functions that are there."""

import re

from tests.docs.pages import ROOT

ROOMS = ("", "src/binaryrelax", "src/binaryrelax/optim", "lab/binaryrelax_lab")
HOP = re.compile(r"^(?:pack|save|certify|load|export)? *([\w/]+\.py) +([\w.]+)", re.MULTILINE)


def test_walks_lead_through_functions_that_are_there():
    walks = (ROOT / "docs" / "under-the-hood" / "walks.md").read_text()
    hops = HOP.findall(walks)
    assert len(hops) > 60
    for file, name in hops:
        [path] = [ROOT / room / file for room in ROOMS if (ROOT / room / file).is_file()][:1]
        kind = r"(def|class) " + re.escape(name.split(".")[-1]) + r"\b"
        assert re.search(kind, path.read_text()), f"{file}: {name}"
