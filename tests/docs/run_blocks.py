"""Runs blocks in order, in one namespace and the current folder: JSON on stdin, a child process."""

import json
import subprocess
import sys

MOST_SECONDS = 60


def main() -> None:
    request = json.load(sys.stdin)
    namespace = {"__name__": "__main__"}
    for block in request["blocks"]:
        if block["kind"] == "sh":
            subprocess.run(["bash", "-euc", block["code"]], check=True, timeout=MOST_SECONDS)
        else:  # empty lines in front: a traceback then names the line of the page
            code = "\n" * (block["line"] - 1) + block["code"]
            exec(compile(code, request["page"], "exec"), namespace)


if __name__ == "__main__":
    main()
