"""The walks through the code lead through functions that are there."""

import re

from tests.docs.pages import ROOT

ROOMS = (
    *("", "src/binaryrelax", "src/binaryrelax/optim", "lab/binaryrelax_lab"),
    *("native/binaryrelax_native", "native/src"),
)
STAGE = r"(?:pack|save|certify|load|export|call)?"
HOP = re.compile(rf"^{STAGE} *([\w/]+\.(?:py|cpp)) +([\w.]+)", re.MULTILINE)


def test_walks_lead_through_functions_that_are_there():
    walks = (ROOT / "docs" / "under-the-hood" / "walks.md").read_text()
    hops = HOP.findall(walks)
    assert len(hops) > 100
    for file, name in hops:
        [path] = [ROOT / room / file for room in ROOMS if (ROOT / room / file).is_file()][:1]
        last = re.escape(name.split(".")[-1])
        defined = rf"(def|class) {last}\b" if path.suffix == ".py" else rf"\b{last}\("
        assert re.search(defined, path.read_text()), f"{file}: {name}"
