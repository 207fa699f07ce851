"""Packed networks beside float ones: the same as `binaryrelax bench packed`.

python benchmarks/packed.py [--out FILE]
"""

import sys

from binaryrelax.cli import app

if __name__ == "__main__":
    app(["bench", "packed", *sys.argv[1:]])
