"""``python -m binaryrelax``: the command, once Python has imported the package."""

from binaryrelax_command import main

if __name__ == "__main__":
    main()
