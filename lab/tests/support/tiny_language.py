"""Texts and recipes small enough to train a language model in a blink.

``python -m lab.tests.support.tiny_language FOLDER`` trains one, with a checkpoint each epoch.
"""

import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from lab.tests.support.interrupted import After, Notes

from binaryrelax_lab.engine import Job, RunOptions, this_machine, train
from binaryrelax_lab.language import LanguageData, load_corpus
from binaryrelax_lab.language.llama import SIZES, LlamaSize
from binaryrelax_lab.language.texts import embedded_texts
from binaryrelax_lab.recipes import LanguageRecipe, find_recipe
from binaryrelax_lab.results import LanguageResult

NUM_EPOCHS, STEPS_PER_EPOCH, PHASE_TWO_EPOCH = 5, 3, 4
SETTINGS = {
    "network": "llama-tiny",
    "vocabulary": "256",  # the bytes themselves: no tokenizer is needed
    "context": "16",
    "batch_size": "4",
    "steps_per_epoch": str(STEPS_PER_EPOCH),
}
SIZES["llama-tiny"] = LlamaSize(width=64, num_layers=1, inner_width=64)


def tiny_language_recipe(method: str, epochs: int = NUM_EPOCHS) -> LanguageRecipe:
    """The small recipe of the method, for a few bytes and steps; a fifth of it is Phase II."""
    recipe = find_recipe(f"lm-small-{method}").with_settings(SETTINGS)
    assert isinstance(recipe, LanguageRecipe)
    start = tiny_language_recipe("float", epochs).name if recipe.starts_from else None
    return replace(recipe.with_epochs(epochs), starts_from=start)


def written(folder: Path, *, start: int = 0) -> Path:
    """A folder with a few thousand bytes of the embedded texts."""
    for text, length in zip(embedded_texts(), (4000, 1000), strict=True):
        piece = "".join(text.pieces())[start : start + length]
        (folder / f"{text.name}.txt").write_text(piece)
    return folder


@cache
def tiny_texts(start: int = 0) -> LanguageData:
    """These bytes as tokens."""
    with TemporaryDirectory() as folder:
        return LanguageData(load_corpus(written(Path(folder), start=start), vocabulary=256))


def train_tiny_language(
    folder: Path,
    method: str,
    *,
    seed: int = 0,
    data: LanguageData | None = None,
    initial: Path | None = None,
    stop_after: int | None = None,
) -> LanguageResult:
    """A run with a checkpoint each epoch, which goes on from the newest."""
    job = Job(tiny_language_recipe(method), seed, folder, initial)
    should_stop = After(stop_after) if stop_after else lambda: False
    options = RunOptions(resume=True, checkpoint_every=1, should_stop=should_stop)
    result = train(job, data or tiny_texts(), listener=Notes(), options=options)
    assert isinstance(result, LanguageResult)
    return result


if __name__ == "__main__":
    with this_machine():
        train_tiny_language(Path(sys.argv[1]), "relax-ternary")
