"""The sentences of the report on results; what they claim is looked up in the runs."""

from binaryrelax.lab.report.grids import Comparison, Grid, Runs, comparisons


def headline(runs: Runs, paper: list[Grid], ours: list[Grid]) -> str:
    """Whether BinaryRelax is ahead of its baselines, as the paper says; if nothing, how much."""
    pairs = _pairs(paper, ours)
    if not pairs:
        return _amount(runs)
    ahead = sum(pair.is_ahead(lambda cell: cell.best) for pair in pairs)
    return f"BinaryRelax is ahead of its baseline in {ahead} of {len(pairs)} comparisons"


def lead(runs: Runs, paper: list[Grid], ours: list[Grid]) -> str:
    """What the page holds, in plain words."""
    everything = [run for group in runs.values() for run in group]
    quantized = [run for run in everything if run.is_quantized]
    in_q = [run for run in quantized if run.result["summary"].get("in_q") is True]
    sentences = [f"{_amount(runs)}."]
    pairs = _pairs(paper, ours)
    if pairs:
        last = sum(pair.is_ahead(lambda cell: cell.last) for pair in pairs)
        sentences.append(
            "A comparison is one network with binary or ternary weights, trained by BinaryRelax "
            "and by BinaryConnect (BWN, TWN); ahead means a higher mean over seeds of the best "
            "epoch of Phase II, the figure that the paper reports. By the last epoch it is ahead "
            f"in {last}. {_beyond_noise(pairs)}"
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


def tables_note() -> str:
    """How to read the tables."""
    return (
        "Validation accuracy in percent, mean ± standard deviation over seeds. The best of Phase "
        "II is chosen by looking at the validation images, as in the paper, among equally many "
        "epochs for every method; the last epoch is the honest figure. Bold: the higher of "
        "BinaryRelax and its baseline."
    )


def ours_text() -> str:
    """What the tables beyond the paper are."""
    return (
        "Exact ternary: BinaryRelax with the nearest point of Q instead of TWN's threshold. Plus: "
        "the learning rate falls to zero along a cosine and momentum is 0.9, so that the last "
        "epoch is the best one; all else is as in the paper. Tuned: plus with settings that a "
        "search has chosen. Other lengths and settings bear their change in the name; those with "
        "held_out are judged by training images that were held out, not by the test images."
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
        f"training in all, at {_count(len(commits), 'git commit')} of the code. The paper's are "
        "those of its Tables 1 to 3. Every run is listed above with its settings, environment and "
        "digests."
    )


def _beyond_noise(pairs: list[Comparison]) -> str:
    """How many differences are larger than chance easily makes them."""
    measured = [pair.standard_errors for pair in pairs if pair.standard_errors is not None]
    if not measured:
        return "With a single seed each, nobody knows how much of it is chance."
    ahead, behind = sum(z > 2 for z in measured), sum(z < -2 for z in measured)
    return (
        f"Among the {len(measured)} with several seeds it is ahead in {ahead} and behind in "
        f"{behind} by more than two standard errors."
    )


def _pairs(paper: list[Grid], ours: list[Grid]) -> list[Comparison]:
    """Those of the paper's tables; without any, all others."""
    return comparisons(paper) or comparisons(ours)


def _amount(runs: Runs) -> str:
    count = sum(len(group) for group in runs.values())
    return f"{_count(count, 'run')} of {_count(len(runs), 'recipe')}"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" + ("" if number == 1 else "s")


def markdown_note() -> str:
    """How to read the tables, and how to make a cell again."""
    return (
        "Test accuracy in percent; mean ± standard deviation where there are several seeds. The "
        "paper reports the best epoch of Phase II, chosen on the test images; the last epoch is "
        "the honest figure. Of BinaryRelax and its baseline, the higher is bold. Any cell again: "
        "`binaryrelax train RECIPE --seed N --data DIR`, with the recipe that `binaryrelax "
        "recipes` lists for it, such as cifar10-resnet20-binary."
    )
