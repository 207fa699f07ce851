"""The claims and statements of the paper, in our words, each with its status and what says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from binaryrelax_lab.report.figures import paper_sizes, paper_verdicts as say
from binaryrelax_lab.report.figures.evidence import Evidence, Record
from binaryrelax_lab.report.figures.markdown import table
from binaryrelax_lab.report.figures.paper_verdicts import (
    CONFIRMED,
    CONTRADICTED,
    NOT_TESTABLE,
    STATUSES,
    Verdict,
)

CELLS, GAINS = "[cell by cell](#cell-by-cell)", "[gains](#gains-of-binaryrelax)"
CIFAR10, CIFAR100 = "[CIFAR-10](../../results/cifar10)", "[CIFAR-100](../../results/cifar100)"
FIGURE_THREE, THEORY = "[Figure 3](figure-3.md)", "[theory](theory.md)"
STATEMENTS = "results/theory/statements.json"


@dataclass(frozen=True)
class Claim:
    """A claim of the paper.

    Args:
        section: where it stands.
        says: the claim in our words.
        verdict: computed from the evidence.
        where: the run, the test or the page that says so.
    """

    section: str
    says: str
    verdict: Callable[[Evidence], Verdict]
    where: str


def always(status: str, why: str = "") -> Callable[[Evidence], Verdict]:
    """A verdict that no figure decides."""
    return lambda _: Verdict(status, why)


SPURIOUS = always(NOT_TESTABLE, "Nobody can list the local minima of such a network.")
OF_SECTION_THREE = (
    Claim(
        "3",
        "BinaryRelax and its baseline share the projection and the float network they start from.",
        say.shares_its_start,
        "`test_methods_share_their_projection_with_the_baseline`, `lab/tests/results`",
    ),
    Claim(
        "3.1",
        "λ starts at 1 and ends Phase I between 100 and 200, after about 4/5 of the epochs.",
        say.ends_between_100_and_200,
        "`test_strength_on_cifar_grows_after_each_epoch_until_phase_two`, "
        "`test_strength_on_imagenet_grows_each_half_epoch`",
    ),
    Claim(
        "3.1",
        "Such a λ makes the passage into Phase II smooth.",
        say.passes_smoothly,
        f"{CIFAR10}, {CIFAR100}",
    ),
    Claim(
        "3.1",
        "A much smaller λ makes accuracy drop when Phase II starts.",
        say.small_strength_makes_a_drop,
        "[ResNet-20](phase-two.md), [demo](../../results/fashion-mnist-12k)",
    ),
    Claim(
        "3.2",
        "ResNet-18 has about 11 million parameters, ResNet-110 about 1.7 million.",
        always(CONFIRMED, "Ours have the published numbers, by test."),
        "`test_parameter_counts_are_the_published_ones`",
    ),
    Claim(
        "3.2",
        "The wide ResNets are the most accurate networks of the tables.",
        say.wide_networks_are_the_most_accurate,
        CELLS,
    ),
    Claim("3.2", "Their size explains it.", say.size_explains_accuracy, CELLS),
    Claim(
        "3.2",
        "On CIFAR-100 the accuracy of VGG-16 with BinaryRelax decays during Phase I.",
        say.decays_in_phase_one,
        FIGURE_THREE,
    ),
    Claim(
        "3.2",
        "The growth of λ causes that decay.",
        say.decays_because_of_the_strength,
        FIGURE_THREE,
    ),
    Claim(
        "3.2",
        "BinaryRelax costs about as much training as hard quantization.",
        say.costs_about_the_same,
        f"{CIFAR10}, {CIFAR100}",
    ),
    Claim(
        "3.2",
        "BinaryRelax is more accurate than its baseline in every row.",
        say.beats_its_baseline,
        GAINS,
    ),
    Claim(
        "3.2",
        "Its advantage is clearest on the large networks, ResNet-18 and ResNet-34.",
        paper_sizes.larger_gain_on_wide_networks,
        GAINS,
    ),
    Claim(
        "3.2",
        "There, 1 bit with BinaryRelax is even more accurate than TWN.",
        say.one_bit_beats_ternary,
        CELLS,
    ),
    Claim("3.2", "Large networks have more spurious local minima.", SPURIOUS, ""),
    Claim(
        "3.2",
        "Relaxation skips bad local minima.",
        say.skips_local_minima,
        f"{THEORY}, `results/theory/local-minima.json`",
    ),
    Claim(
        "3.3",
        "On ImageNet BinaryRelax gains 2.4 points over BWN and 4.7 over TWN, top-5 2.1 and 3.1.",
        say.beats_its_baseline_on_imagenet,
        "`lab/tests/engine/test_imagenet_run.py`",
    ),
)
OF_SECTION_FIVE = (
    Claim(
        "5",
        "A step is a hybrid gradient step, then a weighted mean of float and quantized weights.",
        always(CONFIRMED, "The optimizer equals Algorithm 1 at every step."),
        "`test_equals_algorithm_1_at_every_step`",
    ),
    Claim(
        "5",
        "The slowly growing parameter drives the weights to the quantized state.",
        say.drives_to_q,
        "`results/findings/sliding-weights.json`",
    ),
    Claim(
        "5",
        "Phase II ends with purely quantized weights.",
        say.ends_in_q,
        "[results](../../results), `test_weights_end_exactly_in_q`",
    ),
    Claim(
        "5",
        "At about the same cost, BinaryRelax is consistently more accurate than BinaryConnect.",
        say.beats_its_baseline,
        GAINS,
    ),
    Claim(
        "5",
        "Its advantage is clearer on larger networks.",
        paper_sizes.larger_gain_on_larger_networks,
        GAINS,
    ),
    Claim("5", "Larger networks have more complex landscapes.", SPURIOUS, ""),
    Claim(
        "5",
        "It provably converges in expectation under approximate orthogonality.",
        say.converges_under_its_condition,
        THEORY,
    ),
)
ELSEWHERE = (
    Claim(
        "abstract",
        "BinaryRelax is more accurate than the state of the art.",
        always(NOT_TESTABLE, "The paper compares with BWN and TWN alone, as we do."),
        "[published figures](recipes.md)",
    ),
    Claim(
        "1",
        "1-bit weights take 32 times less memory than float ones, ternary weights 16 times.",
        say.saves_memory,
        f"{CIFAR10}, {CIFAR100}",
    ),
    Claim(
        "1",
        "The projected gradient stagnates at small learning rates; BinaryConnect does not.",
        say.projected_gradient_stagnates,
        f"{THEORY}, `results/theory/stagnation.json`",
    ),
    Claim(
        "2.5",
        "Accuracy comes from Phase I; Phase II gains very little.",
        say.phase_two_gains_little,
        f"{CIFAR10}, {CIFAR100}",
    ),
    Claim(
        "4",
        "In the experiments BinaryConnect converges at a small learning rate.",
        say.settles_at_a_small_rate,
        f"{CIFAR10}, {CIFAR100}",
    ),
)
GROUPS = {"3": OF_SECTION_THREE, "5": OF_SECTION_FIVE, "elsewhere": ELSEWHERE}
PROPER = {  # labels of the paper, in its order, and what they are called
    "prop:global": "Proposition: the relaxed minima converge as λ grows",
    "prop:approx_quant": "Proposition: the relaxed step has a closed form",
    "thm:local": "Proposition: points of Q are no relaxed minima",
    "lem:othor": "Lemma: approximate orthogonality",
    "prop:alpha": "Proposition: α of short steps, and when it is 0",
    "lem:alt_update": "Lemma: the alternative update",
    "lem:upper": "Lemma: an upper bound of a step",
    "lem:descent": "Lemma: the descent lemma",
    "thm": "Theorem: convergence in expectation",
}


def claims(evidence: Evidence, group: str) -> str:
    """A row for each claim of a group; numbers run on over all groups."""
    first = 1
    for name, members in GROUPS.items():
        if name == group:
            break
        first += len(members)
    rows = []
    for number, claim in enumerate(GROUPS[group], first):
        verdict = claim.verdict(evidence)
        status = f"**{verdict.status}**"
        rows.append((str(number), claim.section, claim.says, status, verdict.why, claim.where))
    return table(("", "section", "claim", "status", "what the evidence says", "where"), rows)


def figure_three(evidence: Evidence) -> str:
    """The status of the paper's curves, in a cell of a table."""
    verdict = say.ends_as_the_curves_do(evidence)
    return f"**{verdict.status}**. {verdict.why}"


def statements(evidence: Evidence) -> str:
    """A row for each statement that the paper proves."""
    rows = []
    for label, words in PROPER.items():
        mine = _rows_of(evidence, label)
        cases = sum(row["cases"] for row in mine if not row["failures"])
        tests = sorted({row["test"].split("::")[1] for row in mine})
        failing = [_failure(row, label) for row in mine if row["failures"]]
        shown = "<br>".join(failing), "<br>".join(f"`{test}`" for test in tests)
        rows.append((words, f"`{label}`", f"**{_status(mine)}**", f"{cases:,}", *shown))
    headings = ("statement", "label", "status", "cases that hold", "what fails", "tests")
    return table(headings, rows)


def _rows_of(evidence: Evidence, label: str) -> list[Record]:
    """The rows of the table of statements that are about one label."""
    rows: list[Record] = evidence.read(STATEMENTS, "statements")
    parts = (f"{label},", f"{label} ")
    return [row for row in rows if row["label"] == label or row["label"].startswith(parts)]


def _failure(row: Record, label: str) -> str:
    """Which part fails, and how."""
    part = row["label"].removeprefix(label).lstrip(", ").replace(">=", "≥")
    return f"{part}: {row['result']}"


def _status(rows: list[Record]) -> str:
    """Contradicted if it fails as it is stated; a failure outside of its assumptions is none."""
    return CONTRADICTED if any(row["result"] == "fails" for row in rows) else CONFIRMED


def tally(evidence: Evidence) -> str:
    """How many claims and statements have which status."""
    counted = {
        **{
            words: [claim.verdict(evidence).status for claim in GROUPS[group]]
            for group, words in {
                "3": "claims of section 3",
                "5": "claims of section 5",
                "elsewhere": "claims elsewhere that lean on experiments",
            }.items()
        },
        "propositions, lemmas, theorem": [_status(_rows_of(evidence, label)) for label in PROPER],
    }
    rows = [(words, *(str(found.count(s)) for s in STATUSES)) for words, found in counted.items()]
    return table(("", *STATUSES), rows)


SECTIONS = {
    **{f"checklist-claims-{group}": partial(claims, group=group) for group in GROUPS},
    "checklist-figure-3": figure_three,
    "checklist-statements": statements,
    "checklist-tally": tally,
}
