"""What the committed runs say of a claim: its status by a rule, and the figures behind it.

Each function returns a `Verdict`. Rules are the same for all claims of one kind, and stand in
docs/evidence/checklist.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev

from binaryrelax_lab.recipes import NETWORK_NAMES, Recipe, find_recipe
from binaryrelax_lab.recipes.methods import PAPER_METHODS
from binaryrelax_lab.recipes.search import SMALLER_STRENGTH, relaxed_at_tuned_decay
from binaryrelax_lab.report.figures.evidence import Evidence
from binaryrelax_lab.report.figures.markdown import mean_text, percent, range_text
from binaryrelax_lab.report.figures.paper_cells import DATASETS, NOT_RUN, TOLERANCES
from binaryrelax_lab.report.figures.paper_gains import (
    FIGURES,
    Lead,
    all_gains,
    counted_by,
    lead_of,
    num_ahead_of,
    num_gains_of_the_paper,
    num_quantized_weights,
    rows_of,
)
from binaryrelax_lab.report.figures.phase_one_decay import NUM_MEANT
from binaryrelax_lab.report.figures.schedules import BITS, DEMO, final_strength
from binaryrelax_lab.report.figures.way_into_q import FILE as SLIDING_WEIGHTS
from binaryrelax_lab.results import RunResult
from binaryrelax_lab.results.statistics import FEWEST_SEEDS, counted
from binaryrelax_lab.results.weight_paths import WeightPaths

CONFIRMED, CONTRADICTED, UNDECIDED = "confirmed", "contradicted", "undecided"
NOT_TESTABLE = "not testable here"
STATUSES = (CONFIRMED, CONTRADICTED, UNDECIDED, NOT_TESTABLE, NOT_RUN)
CIFAR = ("cifar10", "cifar100")
WIDE = ("resnet18", "resnet34")  # "the large nets" of section 3.2
CURVES = ("vgg16", "resnet34")  # of Figure 3
LATE = 20  # epochs of the swing at the end
SECOND_RATE = (120, 220)  # the epochs of the second learning rate
SIMILAR_COST = 0.1  # of the time of the baseline
LIMITED = 0.5  # points that Phase II may gain and still be called "very limited"
STEPS_ON_IMAGENET = 5005  # an epoch: 1,281,167 images in batches of 256


@dataclass(frozen=True)
class Verdict:
    """The status of a claim, and why."""

    status: str
    why: str


def verdict_of_leads(leads: Sequence[Lead], missing: str = "") -> Verdict:
    """Confirmed if ahead in all by each figure, contradicted if clearly behind anywhere."""
    if not leads:
        return Verdict(NOT_RUN, "")
    num_ahead = num_ahead_of(leads)
    if all(num_ahead(name) == len(leads) for name in FIGURES):
        status = CONFIRMED
    else:
        status = CONTRADICTED if any(lead.is_behind for lead in leads) else UNDECIDED
    seeds = seed_note([lead.num_seeds for lead in leads])
    return Verdict(status, f"Ahead {counted_by(num_ahead, len(leads))}. {seeds}{missing}")


def seed_note(counts: Sequence[int]) -> str:
    """How many of these have seeds enough for a test."""
    enough = sum(count >= FEWEST_SEEDS for count in counts)
    return f"{enough} of {len(counts)} with {FEWEST_SEEDS} seeds or more."


def shares_its_start(evidence: Evidence) -> Verdict:
    """Whether both runs of a seed start from the same file, by its digest."""
    same = []
    for dataset in DATASETS:
        for row in rows_of(dataset).values():
            for names in BITS.values():
                theirs, ours = (
                    {run.seed: run.start for run in evidence.runs_of(row[name].name)}
                    for name in names
                )
                starts = [(ours[seed], theirs[seed]) for seed in ours if seed in theirs]
                same += [bool(a and b and a.digest == b.digest) for a, b in starts]
    if not same:
        return Verdict(NOT_RUN, "")
    status = CONFIRMED if all(same) else CONTRADICTED
    count = counted(len(same), "pair")
    return Verdict(status, f"{sum(same)} of {count} of runs start from the same file, by digest.")


def beats_its_baseline(evidence: Evidence) -> Verdict:
    """BinaryRelax against BWN and TWN, everywhere."""
    gains = all_gains(evidence)
    missing = f" {num_gains_of_the_paper() - len(gains)} comparisons are {NOT_RUN}."
    return verdict_of_leads([gain.lead for gain in gains], missing)


def beats_its_baseline_on_imagenet(evidence: Evidence) -> Verdict:
    """The same of Table 3 alone."""
    gains = [gain for gain in all_gains(evidence) if gain.dataset == "imagenet"]
    if not gains:
        return Verdict(NOT_TESTABLE, "It needs the images of ImageNet. The recipes are tested.")
    return verdict_of_leads([gain.lead for gain in gains])


def ends_as_the_curves_do(evidence: Evidence) -> Verdict:
    """The networks of Figure 3: BinaryRelax ends above its baseline."""
    gains = [gain for gain in all_gains(evidence) if gain.dataset == "cifar100"]
    kept = [gain for gain in gains if gain.network in CURVES]
    names = [NETWORK_NAMES[n] for n in CURVES if n not in {gain.network for gain in kept}]
    missing = f" {' and '.join(names)}: {NOT_RUN}." if names else ""
    return verdict_of_leads([gain.lead for gain in kept], missing)


def one_bit_beats_ternary(evidence: Evidence) -> Verdict:
    """1 bit with BinaryRelax against TWN on the wide ResNets."""
    found, missing = [], 0
    for dataset in CIFAR:
        for network in WIDE:
            row = rows_of(dataset)[network]
            lead = lead_of(evidence, dataset, row["binary"], row["twn"])
            missing += lead is None
            found += [lead] if lead else []
    return verdict_of_leads(found, f" {missing} of 4 cells are {NOT_RUN}." if missing else "")


def wide_networks_are_the_most_accurate(evidence: Evidence) -> Verdict:
    """The wide ResNets against every other network of their table, method by method."""
    names = [
        NETWORK_NAMES[n] for n in WIDE if not evidence.runs_of(rows_of("cifar10")[n]["twn"].name)
    ]
    missing = f" {' and '.join(names)}: {NOT_RUN}." if names else ""
    return verdict_of_leads(_accuracies_of_wide(evidence, others=None), missing)


def size_explains_accuracy(evidence: Evidence) -> Verdict:
    """VGG-16 is larger than ResNet-18: is it more accurate?"""
    leads = _accuracies_of_wide(evidence, others=("vgg16",))
    if not leads:
        return Verdict(NOT_RUN, "")
    names = (rows_of("cifar10")[network]["float"].name for network in ("vgg16", "resnet18"))
    sizes = [f"{num_quantized_weights(evidence.runs_of(name)) / 1e6:.1f}" for name in names]
    count = num_ahead_of(leads)("mean of Phase II")
    why = (
        f"VGG-16 has {sizes[0]} million weights in its convolutions and ResNet-18 {sizes[1]}. "
        f"ResNet-18 is more accurate in {count} of {len(leads)} columns, with one seed."
    )
    return Verdict(UNDECIDED, why)


def _accuracies_of_wide(evidence: Evidence, others: Sequence[str] | None) -> list[Lead]:
    """Leads over the other networks, with seeds paired as they come."""
    leads = []
    for dataset in CIFAR:
        rows = rows_of(dataset)
        for wide in WIDE:
            for network in others or (n for n in rows if n not in WIDE):
                pairs = ((rows[wide][m], rows[network][m]) for m in PAPER_METHODS)
                leads += [lead_of(evidence, dataset, *pair) for pair in pairs]
    return [lead for lead in leads if lead]


def ends_between_100_and_200(_: Evidence) -> Verdict:
    """λ at the end of Phase I, and where that is."""
    cifar, imagenet = find_recipe("cifar10-vgg16-binary"), find_recipe("imagenet-resnet18-binary")
    last_step = imagenet.phase_two_epoch * STEPS_ON_IMAGENET - 1
    ends = [float(final_strength(cifar)), imagenet.schedule(STEPS_ON_IMAGENET)(last_step)]
    shares = [percent(recipe.phase_two_epoch / recipe.epochs) for recipe in (cifar, imagenet)]
    status = CONFIRMED if all(100 < end < 200 for end in ends) else CONTRADICTED
    why = (
        f"λ ends Phase I at {ends[0]:.0f} on CIFAR, after {shares[0]} of the epochs, and at "
        f"{ends[1]:.0f} on ImageNet, after {shares[1]}."
    )
    return Verdict(status, why)


def passes_smoothly(evidence: Evidence) -> Verdict:
    """What projecting costs at the end of Phase I, at each width."""
    parts, statuses = [], []
    for bits, (_, method) in BITS.items():
        changes = {(d, n): _changes(evidence, rows_of(d)[n][method]) for d in CIFAR
                   for n in rows_of(d)}  # fmt: skip
        known = {key: change for key, change in changes.items() if change}
        if not known:
            continue
        fair = [at_once >= -TOLERANCES[d] for (d, _), (at_once, _) in known.items()]
        status = CONFIRMED if all(fair) else CONTRADICTED if sum(fair) <= len(fair) / 2 else ""
        at_once, later = (range_text(list(values)) for values in zip(*known.values(), strict=True))
        statuses.append(status or UNDECIDED)
        parts.append(
            f"{bits.capitalize()}: {statuses[-1]}; projecting changes {at_once} points, and after "
            f"one epoch of Phase II {later} ({len(known)} networks)"
        )
    if not parts:
        return Verdict(NOT_RUN, "")
    status = statuses[0] if len(set(statuses)) == 1 else UNDECIDED
    counts = [len(evidence.runs_of(row[m].name)) for d in CIFAR for row in rows_of(d).values()
              for m in ("binary", "ternary")]  # fmt: skip
    return Verdict(status, f"{'. '.join(parts)}. {seed_note([n for n in counts if n])}")


def _changes(evidence: Evidence, recipe: Recipe) -> tuple[float, float] | None:
    """What projecting changes at the end of Phase I, and one epoch later; means over seeds."""
    runs = evidence.runs_of(recipe.name)
    if not runs:
        return None
    at = recipe.phase_two_epoch - 1
    at_once = fmean(run.quantized_accuracies[at] - run.accuracies[at] for run in runs)
    return at_once, fmean(run.accuracies[at + 1] - run.accuracies[at] for run in runs)


def small_strength_makes_a_drop(evidence: Evidence) -> Verdict:
    """Projecting from a small λ and from the usual one."""
    pairs: list[tuple[str, Recipe, Recipe]] = []
    parts = []
    for bits, (_, method) in BITS.items():
        demo = find_recipe(DEMO.with_method(method))
        pairs.append((bits, relaxed_at_tuned_decay(method, SMALLER_STRENGTH),
                      relaxed_at_tuned_decay(method, {})))  # fmt: skip
        pairs.append((bits, demo.with_settings({"growth": "1"}), demo))
    drops = []
    for bits, *both in pairs:
        changes = [_changes(evidence, recipe) for recipe in both]
        if all(changes):
            small, usual = (change[0] for change in changes if change)
            drops.append(small < usual - 1)
            words = [f"{mean_text([c])} at λ = {final_strength(r)}" for c, r in
                     zip((small, usual), both, strict=True)]  # fmt: skip
            seeds = counted(len(evidence.runs_of(both[0].name)), "seed")
            network = NETWORK_NAMES[both[0].network]
            parts.append(f"{network}, {bits}: {words[0]}, {words[1]} ({seeds})")
    if not drops:
        return Verdict(NOT_RUN, "")
    status = CONFIRMED if all(drops) else CONTRADICTED if not any(drops) else UNDECIDED
    return Verdict(status, f"Projecting changes, in points: {'; '.join(parts)}.")


def decays_in_phase_one(evidence: Evidence) -> Verdict:
    """Whether accuracy at x falls on VGG-16 while the learning rate stays the same."""
    falls = {m: _fall(evidence, m) for m in ("binary", "ternary")}
    known = {method: fall for method, fall in falls.items() if fall is not None}
    if not known:
        return Verdict(NOT_RUN, "")
    has_fallen = [fall < -TOLERANCES["cifar100"] for fall in known.values()]
    status = CONFIRMED if all(has_fallen) else UNDECIDED if any(has_fallen) else CONTRADICTED
    first, end = SECOND_RATE
    when = (
        f"From epochs {first + 1} to {first + NUM_MEANT} to epochs {end - NUM_MEANT + 1} to {end}"
    )
    return Verdict(status, f"{when}, in points: {_falls_in_words(known)}. One seed each.")


def decays_because_of_the_strength(evidence: Evidence) -> Verdict:
    """Whether networks without a λ that grows keep what those with one lose."""
    pairs = {m: (_fall(evidence, m), _fall(evidence, b)) for b, m in BITS.values()}
    known = {m: (f, base) for m, (f, base) in pairs.items() if f is not None and base is not None}
    if not known:
        return Verdict(NOT_RUN, "")
    keeps = [base >= -TOLERANCES["cifar100"] for _, base in known.values()]
    as_much = [base <= fall for fall, base in known.values()]
    status = CONFIRMED if all(keeps) else CONTRADICTED if all(as_much) else UNDECIDED
    others = {m: f for m in ("float", "bwn", "twn") if (f := _fall(evidence, m)) is not None}
    fallen = _falls_in_words(others)
    return Verdict(status, f"Without a λ that grows, in points: {fallen}. One seed each.")


def _fall(evidence: Evidence, method: str) -> float | None:
    """The change over the epochs of the second learning rate, between means of ten epochs."""
    runs = evidence.runs_of(rows_of("cifar100")["vgg16"][method].name)
    first, end = SECOND_RATE

    def change(run: RunResult) -> float:
        before, after = run.accuracies[first:][:NUM_MEANT], run.accuracies[:end][-NUM_MEANT:]
        return fmean(after) - fmean(before)

    return fmean(map(change, runs)) if runs else None


def _falls_in_words(falls: dict[str, float]) -> str:
    names = {"float": "float", "bwn": "BWN", "twn": "TWN", "binary": "1 bit", "ternary": "ternary"}
    return ", ".join(f"{names[method]} {mean_text([fall])}" for method, fall in falls.items())


def costs_about_the_same(evidence: Evidence) -> Verdict:
    """Seconds of training of BinaryRelax and of its baseline, seed by seed."""
    ratios = []
    for dataset in DATASETS:
        for row in rows_of(dataset).values():
            for baseline, relaxed in BITS.values():
                theirs = {run.seed: run.seconds for run in evidence.runs_of(row[baseline].name)}
                for run in evidence.runs_of(row[relaxed].name):
                    if run.seconds and theirs.get(run.seed):
                        ratios.append(run.seconds / (theirs[run.seed] or 1))
    if not ratios:
        return Verdict(NOT_RUN, "")
    middle = median(ratios)
    status = CONFIRMED if abs(middle - 1) <= SIMILAR_COST else CONTRADICTED
    why = f"The median run takes {middle:.2f} times as long, of {len(ratios)} pairs"
    return Verdict(
        status, f"{why} ({min(ratios):.2f} to {max(ratios):.2f}; runs may have shared a GPU)."
    )


def ends_in_q(evidence: Evidence) -> Verdict:
    """Whether the final file of every quantized run is in Q."""
    told = [run.summary.in_q for runs in evidence.runs.values() for run in runs]
    known = [in_q for in_q in told if in_q is not None]
    status = CONFIRMED if known and all(known) else CONTRADICTED if known else NOT_RUN
    return Verdict(status, f"{sum(known)} of {len(known)} quantized runs end in Q.")


def saves_memory(evidence: Evidence) -> Verdict:
    """How much smaller the quantized layers of the tables' networks are, and whole networks."""
    parts, is_so = [], []
    for (bits, (_, method)), claimed in zip(BITS.items(), (32, 16), strict=True):
        runs = [run for d in CIFAR for row in rows_of(d).values()
                for run in evidence.runs_of(row[method].name)]  # fmt: skip
        sizes = [run.weights.size for run in runs if run.weights and run.weights.size]
        if not sizes:
            continue
        layers = [size.layers_bytes_float / size.layers_bytes for size in sizes]
        whole = [size.network_bytes_float / size.network_bytes for size in sizes]
        is_so += [claimed * 0.99 <= saving <= claimed for saving in layers]
        shown = [range_text(savings, signed=False) for savings in (layers, whole)]
        parts.append(f"{bits} {shown[0]}, whole networks with their float layers {shown[1]}")
    if not parts:
        return Verdict(NOT_RUN, "")
    status = CONFIRMED if all(is_so) else CONTRADICTED
    return Verdict(status, f"Times smaller: {'; '.join(parts)}.")


def drives_to_q(evidence: Evidence) -> Verdict:
    """How far x is from Q in Phase I, in the layer whose weights are shown on their way."""
    [record] = evidence.read(SLIDING_WEIGHTS, "records")
    paths = WeightPaths.from_json(record)
    first, last = (paths.phase_one[place].distance for place in (0, -1))
    status = CONFIRMED if last < first / 10 else UNDECIDED
    why = (
        f"The distance of x to Q falls from {percent(first)} to {percent(last)} of the length of x"
    )
    return Verdict(status, f"{why}, in one layer of the demo, with one seed.")


def phase_two_gains_little(evidence: Evidence) -> Verdict:
    """The best of Phase II against the best of Phase I at x."""
    gains, seeds = [], []
    for dataset in CIFAR:
        for row in rows_of(dataset).values():
            for _, method in BITS.values():
                runs = evidence.runs_of(row[method].name)
                at = row[method].phase_two_epoch
                if runs:
                    seeds.append(len(runs))
                    gains.append(
                        fmean(max(run.accuracies[at:]) - max(run.accuracies[:at]) for run in runs)
                    )
    if not gains:
        return Verdict(NOT_RUN, "")
    small = [gain <= LIMITED for gain in gains]
    status = CONFIRMED if all(small) else CONTRADICTED if not any(small) else UNDECIDED
    count = f"{sum(small)} of {len(gains)} networks gain at most {LIMITED}"
    why = f"Best of II − best of I: {range_text(gains)} points; {count}. {seed_note(seeds)}"
    return Verdict(status, why)


def settles_at_a_small_rate(evidence: Evidence) -> Verdict:
    """How much the accuracy of BinaryConnect still swings in the last epochs."""
    swings, seeds = [], []
    for dataset in CIFAR:
        for row in rows_of(dataset).values():
            for baseline, _ in BITS.values():
                runs = evidence.runs_of(row[baseline].name)
                calm = TOLERANCES[dataset]
                if runs:
                    seeds.append(len(runs))
                    swings.append((fmean(stdev(r.accuracies[-LATE:]) for r in runs), calm))
    if not swings:
        return Verdict(NOT_RUN, "")
    is_calm = [swing <= calm for swing, calm in swings]
    status = CONFIRMED if all(is_calm) else CONTRADICTED if not any(is_calm) else UNDECIDED
    shown = range_text([swing for swing, _ in swings], signed=False)
    why = f"The accuracy of the last {LATE} epochs deviates by {shown} points"
    count = f"{sum(is_calm)} of {len(swings)} within the tolerance"
    return Verdict(status, f"{why}; {count}. {seed_note(seeds)}")


def skips_local_minima(evidence: Evidence) -> Verdict:
    """How often relaxation finds the best minimizer more often than BinaryConnect."""
    cases = evidence.read("results/theory/local-minima.json", "cases")
    shown = [
        record
        for case in cases
        for record in case["methods"]
        if record["method"] == "BinaryRelax, λ to 100, slow"
    ]
    ahead = sum(record["gain_low"] > 0 for record in shown)
    status = CONFIRMED if ahead == len(shown) else UNDECIDED if ahead else CONTRADICTED
    why = f"With λ up to 100, clearly more often than BinaryConnect in {ahead} of {len(shown)} "
    return Verdict(status, f"{why}small problems. Networks cannot be listed so.")


def projected_gradient_stagnates(evidence: Evidence) -> Verdict:
    """The share of weights that ever change level at the smallest learning rate."""
    records = evidence.read("results/theory/stagnation.json", "quadratics", "records")
    least = min(record["rate"] for record in records)
    shares: dict[str, list[float]] = {}
    for record in records:
        if record["rate"] == least:
            shares.setdefault(record["method"], []).append(record["changed"])
    stuck, moving = shares["projected gradient"], shares["BinaryConnect"]
    status = CONFIRMED if max(stuck) < min(moving) / 10 else CONTRADICTED
    shown = [f"{percent(min(s))} to {percent(max(s))}" for s in (stuck, moving)]
    return Verdict(status, f"Weights that ever change level: {shown[0]}, BinaryConnect {shown[1]}.")


def converges_under_its_condition(evidence: Evidence) -> Verdict:
    """The main theorem's row, and that of its assumption."""
    rows = evidence.read("results/theory/statements.json", "statements")
    theorem = next(row for row in rows if row["label"] == "thm")
    assumption = next(row for row in rows if row["label"].startswith("thm, its assumption"))
    status = CONTRADICTED if theorem["failures"] else CONFIRMED
    return Verdict(status, f"It {theorem['result']}. They can be met {assumption['result']}.")
