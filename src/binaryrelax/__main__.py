"""The command ``binaryrelax``, also as ``python -m binaryrelax``."""

import sys
from importlib.util import find_spec

NEEDED = ("typer", "rich", "matplotlib", "PIL")


def main() -> None:
    """Runs the command, or says what has to be installed for it."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        sys.stderr.write(
            f"binaryrelax: the command needs {', '.join(missing)}; "
            "install the extra: pip install '.[lab]' in the source folder\n"
        )
        raise SystemExit(1)
    try:
        from binaryrelax.cli import run  # only now: it imports what may be missing
    except KeyboardInterrupt:  # torch takes a second or two to load
        raise SystemExit(130) from None
    raise SystemExit(run())


if __name__ == "__main__":
    main()
