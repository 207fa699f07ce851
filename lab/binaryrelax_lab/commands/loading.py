"""What a recipe is trained on, from where the user says it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from binaryrelax_lab.data import ImageSource, load_dataset
from binaryrelax_lab.engine import Material
from binaryrelax_lab.recipes import LanguageRecipe, Recipe


def load_data(
    recipe: Recipe,
    *,
    data: Path | None,
    download: bool,
    in_turn: Callable[[Callable[[], None]], None],
    note: Callable[[str], None],
) -> ImageSource | Material:
    """The images of the recipe's dataset, or the texts of the folder.

    Args:
        data: the folder; what comes with the lab, or ``./data``, if not given.
        download: fetch images that are not there.
        in_turn: lets several processes do what writes files one after the other.
        note: hears what takes long.
    """
    if not isinstance(recipe, LanguageRecipe):
        return load_dataset(recipe.dataset, data=data, download=download, in_turn=in_turn)
    from binaryrelax_lab.language import LanguageData, load_corpus

    if download:
        raise ValueError("there is no text to download; give a folder with train.txt and val.txt")
    loaded: list[LanguageData] = []

    def load() -> None:  # the first process makes tokens, the others find them
        corpus = load_corpus(data, vocabulary=recipe.vocabulary, note=note)
        loaded.append(LanguageData(corpus))

    in_turn(load)
    return loaded[0]
