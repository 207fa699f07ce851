"""The command ``binaryrelax``: parses, calls the lab, prints. Each command is a file."""

import signal
from importlib import import_module
from typing import Annotated

import typer
from rich.console import Console

import binaryrelax
from binaryrelax.cli.options import DebugOption
from binaryrelax.cli.speech import complain

# Each is the function of that name in the file of that name; `--help` lists them in this order.
COMMANDS = (
    "demo",
    "recipes",
    "train",
    "campaign",
    "report",
    "pack",
    "certify",
    "export",
    "bench",
    "theory",
)

app = typer.Typer(
    name="binaryrelax",
    help="Train networks whose weights take 1 or 2 bits, and check that they do.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def run() -> int:
    """Runs the command with the arguments of the process and returns its exit status."""
    try:
        status = app(standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        complain("interrupted")
        return 128 + signal.SIGINT
    except Exception as error:
        return _complain_of_usage(error)
    return status if isinstance(status, int) else 0


def _complain_of_usage(error: Exception) -> int:
    """What typer says of wrong arguments, in one line; its errors have no common public class."""
    if not hasattr(error, "format_message"):
        raise error
    message = " ".join(error.format_message().split()).removesuffix(".")
    if message:  # without any argument, it has shown the help already
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "binaryrelax"
        complain(f"{message}; `{command} --help` shows what there is")
    return error.exit_code


def _say_version(wanted: bool) -> None:
    if wanted:
        Console().print(f"binaryrelax {binaryrelax.__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def binaryrelax_command(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_say_version, is_eager=True, help="Say the version."),
    ] = False,
    debug: DebugOption = False,
) -> None:
    """Train networks whose weights take 1 or 2 bits, and check that they do."""
    context.obj = debug


for name in COMMANDS:
    app.command(name)(getattr(import_module(f"{__name__}.{name}"), name))
