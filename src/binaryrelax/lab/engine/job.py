"""What to train, and whether that has been done."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from binaryrelax.lab.engine.files import FINAL_NAME, RESULT_NAME, digest_of, read_json
from binaryrelax.lab.recipes import Recipe, plain


@dataclass(frozen=True)
class Job:
    """What to train, and where its files go.

    Args:
        recipe: every setting.
        seed: all that is random follows from it.
        folder: the run folder.
        initial: the ``final.safetensors`` of the network to start from.
    """

    recipe: Recipe
    seed: int
    folder: Path
    initial: Path | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """What was asked for, as it stands in ``result.json``."""
        return {"recipe": plain(self.recipe), "seed": self.seed}

    @property
    def identity(self) -> dict[str, Any]:
        """What decides the result: the settings, and the network that it starts from."""
        return {**self.settings, "initial_checkpoint": _describe_checkpoint(self.initial)}

    def is_finished(self) -> bool:
        """Whether the folder holds a complete run of this very job.

        The network that it started from may be gone, and so may its histograms.
        """
        try:
            result = read_json(self.folder / RESULT_NAME)
            is_this = all(agree(key, result[key], ours) for key, ours in self.identity.items())
        except (OSError, ValueError, LookupError, TypeError):
            return False  # missing, damaged or something else
        return is_this and self.what_is_lost() is None

    def what_is_lost(self) -> str | None:
        """What is wrong with the network of the result in the folder; None if it is there."""
        path = self.folder / FINAL_NAME
        if not path.is_file():
            return f"its {FINAL_NAME} is missing"
        try:
            told = read_json(self.folder / RESULT_NAME)["weights"]["digest"]
        except (LookupError, TypeError):
            told = None
        is_it = told == digest_of(path)
        return None if is_it else f"{FINAL_NAME} is not the one that its {RESULT_NAME} tells of"


def agree(key: str, theirs: Any, ours: Any) -> bool:
    """Whether two runs agree in a part of their identity.

    Of the network that they start from only the bytes matter, not the folder where they lie; if
    our file of it is gone, its name.
    """
    if key == "initial_checkpoint" and isinstance(theirs, dict) and isinstance(ours, dict):
        known = "digest" if ours["digest"] else "name"
        return theirs.get(known) == ours[known]
    return theirs == ours


def _describe_checkpoint(path: Path | None) -> dict[str, str | None] | None:
    """Name and digest of a checkpoint; its folder is named after the recipe that made it.

    In a campaign that folder holds one for each seed. A file that is not there has no digest.
    """
    if path is None:
        return None
    folder = path.parent
    where = folder.name if not folder.name.startswith("seed") else "/".join(folder.parts[-2:])
    digest = digest_of(path) if path.is_file() else None
    return {"name": f"{where}/{path.name}", "digest": digest}
