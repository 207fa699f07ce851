"""``python -m binaryrelax_native net.brx images.npy``."""

import sys

from .command import main

if __name__ == "__main__":
    sys.exit(main())
