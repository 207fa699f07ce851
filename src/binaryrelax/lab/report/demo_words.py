"""The sentences of the page; what they claim is looked up in the results."""

from binaryrelax.lab.report.runs import FinishedRun
from binaryrelax.lab.report.table import TableRow


def headline(rows: list[TableRow]) -> str:
    """The result in one sentence: how small, and at what loss."""
    named = {row.method: row for row in rows}
    if not {"float", "binary"} <= named.keys():
        return "Networks with weights of one and two bits"
    times = named["binary"].layers_kb_float / named["binary"].layers_kb
    loss = named["float"].last - named["binary"].last
    change = f"{abs(loss):.1f} points {'less' if loss >= 0 else 'more'} accuracy"
    return f"One bit per weight: {times:.0f}× smaller convolutions, {change}"


def lead(runs: list[FinishedRun], rows: list[TableRow]) -> str:
    """What was trained, in plain words."""
    result = runs[0].result
    in_q = [run for run in runs if run.result["summary"]["in_q"]]
    return (
        f"{_count(len(rows))} copies of the same small network learnt to tell ten kinds of "
        "clothing apart. One keeps ordinary 32-bit weights. The others end with convolution "
        "weights that take only two values (−s, +s) or three (−s, 0, +s), with one number s per "
        "layer: BWN and TWN force this from the first step, BinaryRelax pulls the weights there "
        f"little by little. {_count(len(in_q))} of them, read back from disk, lie exactly in their "
        f"set Q. Seed {result['seed']}, one run each: differences of a point or so are noise."
    )


def table_note(runs: list[FinishedRun]) -> str:
    """How to read the columns."""
    start = runs[0].result["recipe"]["phase_two_epoch"] + 1
    end = runs[0].result["recipe"]["epochs"]
    return (
        "Accuracy on the test images, in percent. “Best of Phase II” is the best of epochs "
        f"{start} to {end} for every method; it is chosen by looking at the test images, so the "
        "last epoch is the honest figure. Distance to Q: 0 means that every layer is exactly one "
        "scale times ±1 (or 0). Bits per weight count the scales. Sizes are what the weights take "
        "if stored at that width; the whole network includes its float classifier and batch "
        "normalization."
    )


def packed_note() -> str:
    """What the files are."""
    return (
        "Each network packed into one file: one bit per binary weight, five ternary weights per "
        "byte, float32 for the rest, batch normalization folded in where it follows a convolution. "
        "“From the file” is the accuracy of the network that was loaded from it again. In networks "
        "this small, what is not a weight takes much of the file."
    )


def curves_text() -> str:
    """What the curves show."""
    return (
        "In Phase I, BinaryRelax trains with weights between float and quantized; λ says how hard "
        "they are pulled and grows until Phase II makes them hard (λ = ∞). Its curve in Phase I "
        "is that of the relaxed network, which is not yet quantized. Point at the chart to read "
        "values."
    )


def histograms_text(runs: list[FinishedRun]) -> str:
    """What the histograms show."""
    layer = runs[0].histograms["layer"] if runs else "none"
    num_weights = runs[0].histograms["num_weights"] if runs else 0
    return (
        f"All {num_weights:,} weights of the largest layer ({layer}), measured in units of its "
        "scale s, so that Q stays in place (triangles). The thin outline is the float network that "
        "training started from. Heights are on a square-root scale, so that small bars show too."
    )


def method_text(runs: list[FinishedRun]) -> str:
    """Where the numbers come from."""
    recipe = runs[0].result["recipe"]
    seconds = sum(run.result["seconds"] for run in runs)
    return (
        f"Dataset {recipe['dataset']}: the part of Fashion-MNIST that comes with the package. "
        f"Network {recipe['network']}, {recipe['epochs']} epochs each, "
        f"{seconds:.0f} seconds of training in all. The quantized networks start from the last "
        "epoch of the float one and share its settings. Each figure on this page is computed from "
        "the result.json of its run; the same seed on the same machine gives the same bytes."
    )


def _count(number: int) -> str:
    names = ("None", "One", "Two", "Three", "Four", "Five")
    return names[number] if number < len(names) else str(number)
