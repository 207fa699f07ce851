"""The command as a whole: its own commands, those of plug-ins, and its exit status."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.console import Console

import binaryrelax
from binaryrelax.cli.certify import certify
from binaryrelax.cli.console import complain
from binaryrelax.cli.errors import Invocation
from binaryrelax.cli.export import export
from binaryrelax.cli.options import DebugOption
from binaryrelax.cli.plugins import Plugins

HELP = "Train networks whose weights take 1 or 2 bits, and check that they do."
OF_THE_LAB = ("demo", "recipes", "train", "campaign", "report", "pack", "bench", "theory", "study")


def run(plugins: Plugins | None = None, when_loaded: Callable[[], object] = lambda: None) -> int:
    """Runs the command with the arguments of the process and returns its exit status.

    Args:
        plugins: what to offer beside the library's own commands; what is installed, if not given.
        when_loaded: called once all of them are imported, before the command begins.
    """
    plugins = plugins or Plugins.installed()
    app = make_app(plugins)
    when_loaded()
    try:
        status = app(standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        complain("interrupted")
        return 128 + signal.SIGINT
    except Exception as error:
        return _complain_of_usage(error, plugins)
    return status if isinstance(status, int) else 0


def make_app(plugins: Plugins) -> typer.Typer:
    """The library's commands and those of the plug-ins."""
    app = typer.Typer(
        name="binaryrelax",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback(help=HELP)
    def binaryrelax_command(
        context: typer.Context,
        version: Annotated[
            bool,
            typer.Option(
                "--version", callback=_say_version, is_eager=True, help="Say the version."
            ),
        ] = False,
        debug: DebugOption = False,
    ) -> None:
        context.obj = Invocation(debug, plugins)

    for name, command in plugins.commands():
        app.command(name)(command)
    for command in (certify, export):
        app.command()(command)
    return app


def _say_version(wanted: bool) -> None:
    if wanted:
        Console().print(f"binaryrelax {binaryrelax.__version__}", highlight=False)
        raise typer.Exit


def _complain_of_usage(error: Any, plugins: Plugins) -> int:
    """What typer says of wrong arguments, in one line; its errors have no common public class."""
    if not hasattr(error, "format_message"):
        raise error
    message = " ".join(error.format_message().split()).removesuffix(".")
    lacking = _lacking_command(message, plugins)
    if lacking:
        complain(lacking)
        return 1
    if message:  # without any argument, it has shown the help already
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "binaryrelax"
        complain(f"{message}; `{command} --help` shows what there is")
    return int(error.exit_code)


def _lacking_command(message: str, plugins: Plugins) -> str | None:
    """What to do about a command that exists, but not here; None if the message tells of none."""
    for name in OF_THE_LAB:
        if message.startswith(f"No such command '{name}'"):
            if plugins.has_command(name):
                return f"{name} cannot be loaded, see above"
            return (
                f"{name} is a command of binaryrelax-lab, which is not installed; "
                "pip install ./lab in the source folder, or pip install binaryrelax-lab"
            )
    return None
