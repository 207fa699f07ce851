"""What commands say: results on a console, complaints on stderr."""

import sys

from binaryrelax.lab.speech import say as say


def complain(message: str) -> None:
    """Says in one line what went wrong."""
    sys.stderr.write(f"binaryrelax: {message}\n")
