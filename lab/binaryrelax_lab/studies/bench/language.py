"""What quantizing adds to a training step of a language model, beside AdamW alone.

Steps are those of the engine, compiled and captured where there is a GPU, on random tokens. The
methods are measured in turns, so that a change of the machine's state meets all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch

from binaryrelax_lab.engine import Machine, Material, this_machine
from binaryrelax_lab.engine.environment import describe_environment
from binaryrelax_lab.language import LanguageData, LanguageTask, Text, load_corpus
from binaryrelax_lab.recipes import LanguageRecipe, Recipe, lm_base, lm_small
from binaryrelax_lab.studies import Say
from binaryrelax_lab.studies.bench.timing import in_turns, medians
from binaryrelax_lab.studies.bench.training_steps import WARM_UP, TrainingSteps

ADAMW = "float"
METHODS = (ADAMW, "relax-ternary", "ste-ternary", "bitnet", "relax-binary")
NEEDS_TORCHAO = "parq-ternary"
NUM_TOKENS = 1 << 20
BYTES = 256


@dataclass(frozen=True)
class Effort:
    """What is measured, and how long.

    Args:
        recipe: of a method; all of them have the same network and batches.
        methods: the names of the methods, that of AdamW alone too.
        rounds: turns that each method has.
        steps_a_round: ... of so many steps.
    """

    recipe: Callable[[str], LanguageRecipe]
    methods: tuple[str, ...] = METHODS
    rounds: int = 15
    steps_a_round: int = 20


def bench_language(say: Say, effort: Effort | None = None) -> dict[str, Any]:
    """All measurements, as the content of a JSON file; of the small network without a GPU."""
    with this_machine() as machine, machine.settings():
        effort = effort or _usual_effort(machine, say)
        recipe = effort.recipe(ADAMW)
        takers = _takers(effort, machine, say)
        measures = {
            method: partial(taker.time, effort.steps_a_round) for method, taker in takers.items()
        }
        times = in_turns(measures, effort.rounds)
        model, weights = takers[ADAMW].trainer.model, takers[ADAMW].trainer.weights
        return {
            "environment": describe_environment(machine),
            "network": recipe.network,
            "num_weights": sum(weight.numel() for weight in model.parameters()),
            "num_quantized": sum(weight.numel() for weight in weights),
            "batch_size": recipe.batch_size,
            "context": recipe.context,
            "rounds": effort.rounds,
            "steps_a_round": effort.steps_a_round,
            "methods": _records(times, recipe.batch_size * recipe.context, say),
        }


def _usual_effort(machine: Machine, say: Say) -> Effort:
    has_torchao = find_spec("torchao") is not None
    if not has_torchao:
        say("torchao is not installed: PARQ is left out (pip can install it alone)")
    methods = (*METHODS, NEEDS_TORCHAO) if has_torchao else METHODS
    if machine.is_gpu:
        return Effort(lm_base, methods)
    say("no CUDA device: the small network, and few steps")
    return Effort(lm_small, methods, rounds=3, steps_a_round=2)


def _takers(effort: Effort, machine: Machine, say: Say) -> dict[str, TrainingSteps]:
    """What takes the steps of each method; all are compiled and captured already."""
    takers, begin = {}, time.perf_counter()
    for method in effort.methods:
        takers[method] = TrainingSteps(effort.recipe(method), RandomTokens(), machine, say)
        takers[method].take(WARM_UP)
    say(f"all compiled and captured after {time.perf_counter() - begin:.0f} s")
    return takers


def _records(times: dict[str, list[float]], tokens: int, say: Say) -> list[dict[str, Any]]:
    """Milliseconds per step, tokens per second, and percent of AdamW's step that come on top."""
    typical, records = medians(times), []
    for method, milliseconds in typical.items():
        overhead = 100 * (milliseconds / typical[ADAMW] - 1)
        speed = tokens / milliseconds * 1000
        say(
            f"  {method:14s} {milliseconds:8.3f} ms per step {overhead:+6.1f} %"
            f"  {speed:,.0f} tokens/s"
        )
        records.append(
            {
                "method": method,
                "milliseconds": milliseconds,
                "fastest": min(times[method]),
                "slowest": max(times[method]),
                "overhead_percent": overhead,
                "tokens_per_second": speed,
            }
        )
    return records


class RandomTokens(Material):
    """A text without sense, the same in every run, for recipes of any vocabulary."""

    def task_for(self, recipe: Recipe) -> LanguageTask:
        assert isinstance(recipe, LanguageRecipe)
        random = torch.Generator().manual_seed(0)
        tokens = torch.randint(recipe.vocabulary, (NUM_TOKENS,), generator=random)
        text = Text("random", tokens.to(torch.uint16), NUM_TOKENS, NUM_TOKENS)
        corpus = replace(load_corpus(None, vocabulary=BYTES), train=text)
        return LanguageTask(recipe, LanguageData(corpus))
