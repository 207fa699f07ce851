"""The name of a recipe, taken apart and put together: nobody else does either.

cifar10-resnet20-binary-plus+weight_decay=3e-4@100
|______________| |____| |__| |________________||__|
     family      method  variation   changes, made from left to right
"""

from __future__ import annotations

import re
from collections.abc import Mapping

METHOD_NAMES = {
    "float": "Float",
    "bwn": "BWN",
    "binary": "BinaryRelax binary",
    "twn": "TWN",
    "ternary": "BinaryRelax ternary",
    "ternary-exact": "BinaryRelax ternary, exact",
}
LANGUAGE_METHOD_NAMES = {
    "float": "Float",
    "bitnet": "BitNet b1.58",
    "ste-binary": "Straight-through, binary",
    "ste-ternary": "Straight-through, ternary",
    "parq-binary": "PARQ, binary",
    "parq-ternary": "PARQ, ternary",
    "linear-binary": "Linear mix, binary",
    "linear-ternary": "Linear mix, ternary",
    "relax-binary": "BinaryRelax, binary",
    "relax-ternary": "BinaryRelax, ternary",
}
LABELS = METHOD_NAMES | LANGUAGE_METHOD_NAMES
PLUS, TUNED, NOTEBOOK = "-plus", "-tuned", "-notebook"  # variations of a recipe of the paper
FROM_FLOAT = "-from-float"  # of a language model
_METHODS = "|".join(sorted(LABELS, key=len, reverse=True))
_VARIATIONS = "|".join((PLUS, TUNED, NOTEBOOK, FROM_FLOAT, ""))
# The family is the shortest that leaves a method: that of lm-small-relax-binary is lm-small.
_BASE = re.compile(rf"(?P<family>.+?)-(?P<method>{_METHODS})(?P<variation>{_VARIATIONS})")
_CHANGE = re.compile(
    r"\+(?P<key>\w+)=(?P<value>(?:(?!\+\w+=)[^@])*)|@(?P<epochs>\d{1,9})(?=[+@]|$)"
)


class RecipeName(str):
    """Text that knows its parts; a name of anybody's has at least a family, and no method."""

    @property
    def base(self) -> RecipeName:
        """The name without its changes."""
        return RecipeName(self[: _start_of_changes(self)])

    @property
    def family(self) -> str:
        """Dataset and network, without the method."""
        return self._part("family") or str(self.base)

    @property
    def method(self) -> str | None:
        """One of `METHOD_NAMES`."""
        return self._part("method")

    @property
    def variation(self) -> str:
        """``-plus`` and the like; empty for a recipe of the paper."""
        return self._part("variation") or ""

    @property
    def settings(self) -> set[str]:
        """The keys of all settings that it tells of."""
        return {key for change in self.changes() if isinstance(change, dict) for key in change}

    def changes(self) -> list[dict[str, str] | int]:
        """Settings that were made together, or a number of epochs, in the order of the name.

        Raises:
            ValueError: its end is neither +key=value nor @epochs.
        """
        found: list[dict[str, str] | int] = []
        position = _start_of_changes(self)
        while position < len(self):
            change = _CHANGE.match(self, position)
            if change is None:
                raise ValueError(f"{self[position:]!r} is neither +key=value nor @epochs")
            position = change.end()
            if change["epochs"]:
                found.append(int(change["epochs"]))
            elif found and isinstance(found[-1], dict) and change["key"] not in found[-1]:
                found[-1][change["key"]] = change["value"]
            else:
                found.append({change["key"]: change["value"]})
        return found

    def with_method(self, method: str) -> RecipeName:
        """The name of the same network, trained in the same way by another method."""
        changes = self[_start_of_changes(self) :]
        return RecipeName(f"{self.family}-{method}{self.variation}{changes}")

    def without_method(self) -> str:
        """What all methods have in common."""
        return f"{self.family}{self.variation}{self[_start_of_changes(self) :]}"

    def without_variation(self) -> RecipeName:
        """The recipe of the paper that it is a variation of."""
        return RecipeName(self.base.removesuffix(self.variation))

    def with_settings(self, settings: Mapping[str, str]) -> RecipeName:
        """No value holds an @, or a + before key=, so that the name can be taken apart again."""
        added = (f"+{key}={''.join(text.split())}" for key, text in settings.items())
        return RecipeName(self + "".join(added))

    def with_epochs(self, epochs: int) -> RecipeName:
        """NAME@12 made shorter is NAME@12@6: numbers that are rounded twice may differ."""
        return RecipeName(f"{self}@{epochs}")

    def _part(self, name: str) -> str | None:
        parts = _BASE.fullmatch(self.base)
        return parts[name] if parts else None


def _start_of_changes(name: str) -> int:
    start = re.search(r"\+\w+=|@", name)
    return start.start() if start else len(name)
