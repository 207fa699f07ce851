"""The sentences of the report on results; what they claim is looked up in the runs."""

from typing import Any

from binaryrelax.lab.report.grids import BASELINE_OF, Comparison, Grid, Runs, comparisons
from binaryrelax.lab.report.spread import (
    FEWEST_SEEDS,
    best,
    is_beyond_chance,
    last,
    last_recalibrated,
)
from binaryrelax.lab.speech import counted

NEAR = 0.3  # points below the paper's figure


def headline(runs: Runs, paper: list[Grid], ours: list[Grid]) -> str:
    """Whether BinaryRelax is ahead of its baselines, as the paper says; if nothing, how much."""
    pairs = comparisons([*paper, *ours])
    if not pairs:
        return _amount(runs)
    ahead = sum(pair.is_ahead(last) for pair in pairs)
    return f"At the last epoch BinaryRelax is ahead in {ahead} of {len(pairs)} comparisons"


def lead(runs: Runs, paper: list[Grid], ours: list[Grid]) -> str:
    """What the page holds, in plain words."""
    everything = [run for group in runs.values() for run in group]
    quantized = [run for run in everything if run.is_quantized]
    in_q = [run for run in quantized if run.result["summary"].get("in_q") is True]
    sentences = [f"{_amount(runs)}."]
    pairs = comparisons([*paper, *ours])
    if pairs:
        by_best = sum(pair.is_ahead(best) for pair in pairs)
        sentences.append(
            "A comparison is one network with binary or ternary weights, trained by BinaryRelax "
            "and by BinaryConnect (BWN, TWN) in the same way; ahead means a higher accuracy after "
            "the last epoch, in the mean over seeds. By the best epoch of Phase II it is ahead in "
            f"{by_best}. {_beyond_chance(pairs)}"
        )
    if quantized:
        sentences.append(
            f"{len(in_q)} of the {len(quantized)} quantized networks, read back from disk, lie "
            "exactly in their set Q."
        )
    cells = [cell for grid in paper for row in grid.rows for cell in row.cells]
    filled = sum(bool(cell.runs) for cell in cells)
    sentences.append(f"Of the {len(cells)} cells of the paper's three tables, {filled} have runs.")
    return " ".join(sentences)


def tables_note(grids: list[Grid]) -> str:
    """How to read the tables."""
    return (
        "Test accuracy in percent (of ImageNet: validation), mean ± standard deviation over seeds. "
        "The best of Phase II is chosen by looking at it, among equally many epochs for every "
        "method, which flatters all of them; nobody chooses the last. Bold: the higher "
        f"of BinaryRelax and its baseline. {_recalibrated_note(grids)}"
    ).rstrip()


def ours_text() -> str:
    """What the tables beyond the paper are."""
    return (
        "Exact ternary: BinaryRelax with the nearest point of Q instead of TWN's threshold. Plus: "
        "the learning rate falls to zero along a cosine and momentum is 0.9, of the float network "
        "too, so that the last epoch is the best one; all else is as in the paper. Tuned: plus "
        "with settings that a search has chosen. Other lengths and settings bear their change in "
        "the name; those with held_out are judged by training images that were held out, not by "
        "the test images."
    )


def curves_text() -> str:
    """What the curves show."""
    return (
        "As in the paper's Figure 3. Lines are means over seeds, shades reach from the lowest to "
        "the highest. In Phase I the curve of BinaryRelax is that of the relaxed network, which "
        "is not yet quantized; in Phase II it is. The first epochs of a long run may lie below "
        "the chart. Point at a chart to read values."
    )


def origin(runs: Runs) -> str:
    """Where the numbers come from."""
    results = [run.result for group in runs.values() for run in group]
    hours = sum(result.get("seconds") or 0 for result in results) / 3600
    environments = [result.get("environment") or {} for result in results]
    commits = {environment.get("git_commit") for environment in environments} - {None}
    return (
        f"Each of our figures is computed from the result files of its runs, {hours:.1f} hours of "
        f"training in all, at {counted(len(commits), 'git commit')} of the code. The paper's are "
        "those of its Tables 1 to 3. Every run is listed above with its settings, environment and "
        "digests."
    )


def _beyond_chance(pairs: list[Comparison]) -> str:
    """How many differences are larger than chance easily makes them."""
    every = [pair.gains(last) for pair in pairs]
    judged = [gains for gains in every if len(gains) >= FEWEST_SEEDS]
    if not judged:
        return f"With fewer than {FEWEST_SEEDS} seeds each, nobody knows how much of it is chance."
    beyond = [sum(gains) > 0 for gains in judged if is_beyond_chance(gains)]
    return (
        f"Of the {len(judged)} with {FEWEST_SEEDS} or more seeds it is ahead in "
        f"{beyond.count(True)} and behind in {beyond.count(False)} by more than chance (seed by "
        "seed, Student's t, 95 %)."
    )


def _amount(runs: Runs) -> str:
    count = sum(len(group) for group in runs.values())
    return f"{counted(count, 'run')} of {counted(len(runs), 'recipe')}"


def _recalibrated_note(grids: list[Grid]) -> str:
    """What the line means, where one is shown."""
    cells = [cell for grid in grids for row in grid.rows for cell in row.cells if cell]
    if not any(cell.spread(last_recalibrated) for cell in cells):
        return ""
    return (
        "Recalibrated: the network of the last epoch with the statistics of batch normalization "
        "averaged over a hundred batches of training images, instead of those that training left."
    )


def markdown_note(grids: list[Grid]) -> str:
    """How to read the tables, and how to make a cell again, as a list."""
    notes = [
        "Test accuracy in percent; mean ± standard deviation where there are several seeds. Of "
        "BinaryRelax and its baseline, the higher is bold.",
        "The best epoch is chosen by looking at the test images, which flatters; nobody chooses "
        "the last. The paper does not say which epoch it shows; the scripts of its authors keep "
        "the best. For float, BWN and TWN, which know no phases, Phase II means the same last "
        "epochs.",
        _recalibrated_note(grids),
        _machines_note(grids),
        "Any cell again: `binaryrelax train DATASET-NETWORK-METHOD --seed N --data DIR`, such as "
        "cifar10-resnet20-binary or cifar10-vgg16-twn, which trains the float network that it "
        "starts from first; all names: `binaryrelax recipes`. The tables of a folder: `binaryrelax "
        "report FOLDER --out FILE.md`.",
    ]
    return "\n".join(f"* {note}" for note in notes if note)


def _machines_note(grids: list[Grid]) -> str:
    """What runs were made on that will not have the same bits when they are made again."""
    cells = [cell for grid in grids for row in grid.rows for cell in row.cells if cell]
    environments = [run.result.get("environment") or {} for cell in cells for run in cell.runs]
    machines = {
        f"{made.get('device')} in {made.get('precision')} with torch {made.get('torch')}"
        for made in environments
        if made.get("deterministic") is False and not _is_of_a_cpu(made)
    }
    if not machines:
        return ""
    return (
        f"Made on {' and '.join(sorted(machines))}, not with the same order of additions each "
        "time: a cell that is made again differs about as another seed does."
    )


def _is_of_a_cpu(environment: dict[str, Any]) -> bool:
    """There the device is named after the kind of processor, which ends the platform."""
    return str(environment.get("platform")).endswith(str(environment.get("device")))


def against_the_paper(grid: Grid) -> str:
    """How many cells of BinaryRelax reach what the paper says, by the best of Phase II."""
    cells = [cell for row in grid.rows for cell in row.cells if cell and cell.method in BASELINE_OF]
    gaps = [
        round(ours.mean - cell.paper, 2)  # as the tables show it
        for cell in cells
        if cell.paper is not None and (ours := cell.spread(best))
    ]
    if not gaps:
        return "No cell of BinaryRelax has been run yet."
    near, above = sum(gap >= -NEAR for gap in gaps), sum(gap > 0 for gap in gaps)
    return (
        f"Cells of BinaryRelax that have been run: {len(gaps)}. Above the paper's figure by the "
        f"best of Phase II: {above}. Above it, or at most {NEAR} points below: {near}."
    )
