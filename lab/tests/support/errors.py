"""What every error of the lab has in common."""

import pytest


def one_line(caught: pytest.ExceptionInfo) -> str:
    """The words of the error, which must stand on one line."""
    text = str(caught.value)
    assert "\n" not in text
    return text
