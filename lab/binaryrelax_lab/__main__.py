"""``python -m binaryrelax_lab``: all commands, also with PYTHONPATH alone."""

from binaryrelax_command import main
from binaryrelax_lab.commands import plugins

if __name__ == "__main__":
    main(plugins)
