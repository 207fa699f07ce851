"""Accuracy on CIFAR-10."""

from __future__ import annotations

from figures.common import FIGURES, RESULTS, read, spread, table


def cifar10() -> str:
    """The runs of Table 1 that there are."""
    rows = []
    for folder in sorted((RESULTS / "cifar10").iterdir()):
        runs = [read(path) for path in sorted(folder.glob("seed*.json"))]
        paper = runs[0]["recipe"]["paper_accuracy"]
        cells = [spread([run["summary"][key] for run in runs]) for key in FIGURES]
        rows.append((folder.name, "-" if paper is None else f"{paper}", *cells, str(len(runs))))
    return table(("recipe", "paper", "last", "best of Phase II", "seeds"), rows)


SECTIONS = {"cifar10": cifar10}
