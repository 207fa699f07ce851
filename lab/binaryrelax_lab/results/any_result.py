"""A result of whatever was trained, from the content of its file."""

from typing import Any

from binaryrelax_lab.results.language_result import LanguageResult
from binaryrelax_lab.results.run_result import RunResult
from binaryrelax_lab.results.training_result import TrainingResult

ONLY_OF_LANGUAGE = "context"  # a setting that no recipe for images has


def result_from_json(content: Any, source: str = "") -> TrainingResult:
    """The result in such a file; a `ValueError` says why it is none."""
    recipe = content.get("recipe") if isinstance(content, dict) else None
    is_language = isinstance(recipe, dict) and ONLY_OF_LANGUAGE in recipe
    kind = LanguageResult if is_language else RunResult
    return kind.from_json(content, source)
