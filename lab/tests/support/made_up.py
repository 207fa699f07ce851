"""Result files that no training has made, for tests of what is written about results."""

import json
import math
from pathlib import Path
from typing import Any

from binaryrelax_lab.recipes import LanguageRecipe, Recipe, plain

STEPS_PER_EPOCH = 391
ENVIRONMENT = {"binaryrelax": "0.0", "device": "made up", "git_commit": "0" * 40}


def made_up_result(recipe: Recipe, *, seed: int = 0, last: float = 90.0) -> dict[str, Any]:
    """A result whose accuracy rises to `last` + 0.3, and falls to `last` in the last epoch."""
    schedule = recipe.schedule(STEPS_PER_EPOCH)
    rise = [last - 30 * math.exp(-5 * i / recipe.epochs) for i in range(recipe.epochs - 2)]
    accuracies = [round(value, 2) for value in (*rise, last + 0.3, last)]
    is_float = recipe.quantizer is None
    epochs = [
        {
            "epoch": epoch,
            "phase": None if is_float else 1 + (epoch >= recipe.phase_two_epoch),
            "strength": None if is_float else plain(schedule(epoch * STEPS_PER_EPOCH)),
            "lr": 0.1,
            "train_loss": 0.5,
            "accuracy": accuracy,
            "accuracy_projected": None if is_float else round(accuracy - 1, 2),
        }
        for epoch, accuracy in enumerate(accuracies)
    ]
    if recipe.dataset == "imagenet":
        for record in epochs:
            record["accuracy_top5"] = round(record["accuracy"] + 7, 2)
    return {
        "recipe": plain(recipe),
        "seed": seed,
        "environment": ENVIRONMENT,
        "initial_checkpoint": recipe.starts_from
        and {"name": f"{recipe.starts_from}/final.safetensors", "digest": "a" * 64},
        "seconds": 60.0,
        "epochs": epochs,
        "summary": {
            "last": last,
            "best_phase_two": max(accuracies[recipe.phase_two_epoch :], default=None),
            "mean_last_5": sum(accuracies[-5:]) / 5,
            "in_q": None if is_float else True,
        },
        "weights": {"digest": f"{seed:064x}", "layers": made_up_layers(recipe)},
    }


def made_up_layers(recipe: Recipe, count: int = 3) -> list[dict[str, Any]]:
    """Layers that are in Q."""
    values = 1000 if recipe.quantizer is None else len(recipe.quantizer.codebook)
    in_q = None if recipe.quantizer is None else True
    return [
        {"name": f"conv{i}.weight", "num_weights": 1000, "distinct_values": values, "in_q": in_q}
        for i in range(count)
    ]


def write_result(folder: Path, result: dict[str, Any]) -> Path:
    """Writes it where committed results are."""
    recipe = result["recipe"]
    path = folder / recipe["dataset"] / recipe["name"] / f"seed{result['seed']}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result))
    return path


def made_up_language_result(
    recipe: LanguageRecipe, *, seed: int = 0, last: float = 4.0
) -> dict[str, Any]:
    """A result whose loss falls to `last`."""
    schedule, is_float = recipe.schedule(recipe.steps_per_epoch), recipe.quantizer is None
    losses = [last + 4 * math.exp(-5 * i / recipe.epochs) for i in range(recipe.epochs - 1)]
    epochs = [
        {
            "epoch": epoch,
            "phase": None if is_float else 1 + (epoch >= recipe.phase_two_epoch),
            "strength": None if is_float else plain(schedule(epoch * recipe.steps_per_epoch)),
            "lr": 1e-3,
            "train_loss": loss,
            "loss": loss,
            "perplexity": math.exp(loss),
            "bits_per_byte": loss / 2,
            "loss_projected": None if is_float else loss,
        }
        for epoch, loss in enumerate([*losses, last])
    ]
    score = {"loss": last, "perplexity": math.exp(last), "bits_per_byte": last / 2}
    return {
        "recipe": plain(recipe),
        "seed": seed,
        "environment": ENVIRONMENT,
        "initial_checkpoint": recipe.starts_from
        and {"name": f"{recipe.starts_from}/final.safetensors", "digest": "a" * 64},
        "split": {"corpus": "novels", "corpus_digest": "b" * 64},
        "seconds": 60.0,
        "epochs": epochs,
        "summary": {
            "last": last,
            "best_phase_two": min([*losses[recipe.phase_two_epoch :], last]),
            "mean_last_5": last,
            "in_q": None if is_float else True,
            "texts": {"validation": score | {"num_tokens": 1000, "bigrams": last + 1}},
            "samples": [{"prompt": "She said", "text": " that she would"}],
        },
        "weights": {"digest": f"{seed:064x}", "layers": made_up_layers(recipe)},
    }
