"""Two ways of training against each other, everything else equal: tables of the docs."""

from __future__ import annotations

from binaryrelax.lab.recipes import METHOD_NAMES, NETWORK_NAMES, find_recipe
from binaryrelax.lab.recipes.demo_questions import from_random_weights
from binaryrelax.lab.recipes.methods import PAPER_METHODS
from binaryrelax.lab.recipes.notebook import demo_momentum, vgg11_momentum
from binaryrelax.lab.recipes.recipe import PLUS, TUNED
from binaryrelax.lab.recipes.search import (
    BINARY_CONNECT,
    EXACT,
    FROM_RANDOM_WEIGHTS,
    MORE_DECAY,
    PAPER_MOMENTUM,
    Change,
    tried,
)
from figures.common import spread, table
from figures.evidence import (
    ALL_SCHEDULES,
    BITS,
    LESS_MOMENTUM,
    ROWS,
    best,
    best_of_all,
    differences,
    gain,
    last,
    late,
    recalibrated,
    runs_of,
    settings,
)

Pairs = dict[str, tuple[str, str]]  # what is compared: our recipe, the other
DEMO_NAMES = {  # recipes of the demo by schedule
    "the paper's schedule": ("demo-paper-{}",),
    ALL_SCHEDULES[LESS_MOMENTUM]: (f"demo-paper-{{}}{LESS_MOMENTUM}",),
    "annealed": ("demo-{}", "demo-{}@12"),
}
DECAYS: dict[str, Change] = {"1e-4": {}, "3e-4": MORE_DECAY}
FIGURES = {
    "last epoch": last,
    "last epoch, recalibrated": recalibrated,
    "mean of last epochs": late,
    "best of Phase II": best,
    "best of all epochs": best_of_all,
}


def rival_groups() -> dict[str, Pairs]:
    """BinaryRelax and BinaryConnect, by how they were trained."""
    groups = {words: _rivals_on_cifar(end) for end, words in ALL_SCHEDULES.items()}
    groups["annealed, held-out images"] = pairs_of_tries({}, BINARY_CONNECT)
    for schedule, names in DEMO_NAMES.items():
        groups[f"the demo, {schedule}"] = _rivals_of_the_demo(schedule, *names)
    return groups


def _rivals_of_the_demo(schedule: str, *names: str) -> Pairs:
    return {
        f"the demo, {schedule}, {find_recipe(name.format(relaxed)).epochs} epochs, {bits}": (
            name.format(relaxed),
            name.format(baseline),
        )
        for name in names
        for bits, (baseline, relaxed) in BITS.items()
    }


def _rivals_on_cifar(schedule: str) -> Pairs:
    return {
        f"{words}, {bits}": (f"{network}-{relaxed}{end}", f"{network}-{baseline}{end}")
        for words, network, end in settings({schedule: ALL_SCHEDULES[schedule]})
        for bits, (baseline, relaxed) in BITS.items()
    }


def rival_pairs() -> Pairs:
    """All of them."""
    return {words: pair for pairs in rival_groups().values() for words, pair in pairs.items()}


def exact_pairs() -> Pairs:
    """The exact projection and TWN's threshold, both with BinaryRelax."""
    pairs = {
        words: (f"{network}-ternary-exact{end}", f"{network}-ternary{end}")
        for words, network, end in settings()
    }
    demo = {"the demo": ("demo-ternary+quantizer=Ternary()", "demo-ternary")}
    return pairs | pairs_of_tries(EXACT, {}) | demo


def start_pairs() -> Pairs:
    """From the trained float network and from random weights."""
    pairs = pairs_of_tries({}, FROM_RANDOM_WEIGHTS)
    for bits, (_, method) in BITS.items():
        relaxed = find_recipe(f"demo-{method}")
        as_long, as_dear = from_random_weights(relaxed)
        pairs[f"the demo, {bits}"] = relaxed.name, as_long.name
        pairs[f"the demo, {bits}, as many epochs in all"] = relaxed.name, as_dear.name
    return pairs


def annealed_pairs() -> Pairs:
    """The learning rate annealed to zero, with momentum 0.9, and the paper's schedule."""
    return {
        f"{NETWORK_NAMES[network]}, {METHOD_NAMES[method]}": (
            f"cifar10-{network}-{method}{PLUS}",
            f"cifar10-{network}-{method}",
        )
        for network in (row().network for row in ROWS)
        for method in PAPER_METHODS
    }


def one_bit_pairs(schedules: dict[str, str] = ALL_SCHEDULES) -> Pairs:
    """1 bit with BinaryRelax and TWN's ternary weights."""
    return {
        words: (f"{network}-binary{end}", f"{network}-twn{end}")
        for words, network, end in settings(schedules)
    }


def momentum_pairs() -> Pairs:
    """Momentum 0.9 and the paper's 0.95."""
    rows = {
        "VGG-11, the paper's schedule": vgg11_momentum(),
        "the demo, the paper's schedule": demo_momentum(),
    }
    pairs = {
        f"{words}, {METHOD_NAMES[recipe.method]}": (recipe.name, recipe.name.partition("+")[0])
        for words, row in rows.items()
        for recipe in row
        if recipe.quantizer
    }
    return pairs | pairs_of_tries({}, PAPER_MOMENTUM)


def tuned_pairs() -> Pairs:
    """The tuned recipes and -plus."""
    networks = {bits: f"cifar10-resnet20-{method}" for bits, (_, method) in BITS.items()}
    return {f"ResNet-20, {bits}": (name + TUNED, name + PLUS) for bits, name in networks.items()}


def pairs_of_tries(ours: Change, theirs: Change) -> Pairs:
    """Two changes against each other among the tries of the search."""
    return {
        f"ResNet-20, annealed, 100 epochs, held-out images, {bits}, decay {shown}": (
            tried(method, decay | ours).name,
            tried(method, decay | theirs).name,
        )
        for bits, (_, method) in BITS.items()
        if method == "ternary" or EXACT not in (ours, theirs)
        for shown, decay in DECAYS.items()
    }


def with_runs(pairs: Pairs) -> Pairs:
    """The pairs of recipes that share seeds."""
    return {words: pair for words, pair in pairs.items() if differences(*pair, last)}


def compared(pairs: Pairs, ours: str, theirs: str) -> str:
    """A row for each pair that has been run."""
    rows = []
    for words, pair in with_runs(pairs).items():
        shared = runs_of(pair[0]).keys() & runs_of(pair[1]).keys()
        ends = [spread(last(runs_of(name)[seed]) for seed in shared) for name in reversed(pair)]
        gains = [gain(differences(*pair, figure)) for figure in FIGURES.values()]
        rows.append((words, *ends, *gains))
    if not rows:
        return "Not run yet."
    headings = (f"{theirs}, last", f"{ours}, last", *(f"gain, {name}" for name in FIGURES))
    return table(("", *headings), rows)


SECTIONS = {
    "findings-rivals": lambda: compared(rival_pairs(), "BinaryRelax", "BinaryConnect"),
    "findings-exact": lambda: compared(exact_pairs(), "exact", "TWN's threshold"),
    "findings-start": lambda: compared(
        start_pairs(), "from the float network", "from random weights"
    ),
    "findings-annealed": lambda: compared(annealed_pairs(), "annealed", "the paper's schedule"),
    "findings-momentum": lambda: compared(momentum_pairs(), "momentum 0.9", "momentum 0.95"),
    "recipes-tuned-against-plus": lambda: compared(tuned_pairs(), "`-tuned`", "`-plus`"),
    "findings-one-bit-against-twn": lambda: compared(one_bit_pairs(), "1 bit, BinaryRelax", "TWN"),
}
