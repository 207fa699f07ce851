"""What mkdocs asks of us: the navigation, the page of the command line, links out of docs/.

The navigation follows the folders of docs/. Pages named in `ORDER` come first, in this order; any
other page of a folder comes after them by name, so that a new page needs no line here.
"""

from __future__ import annotations

import logging
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
SECTIONS = {
    "Learn": "learn",
    "How-to": "how-to",
    "Reference": "reference",
    "Evidence": "evidence",
    "Under the hood": "under-the-hood",
}
ORDER = (
    *("your-network", "paper-row", "install"),
    *(
        "bit-width",
        "resume",
        "distributed",
        "speed",
        "trainers",
        "lightning",
        "watch-training",
        "recalibrate",
    ),
    *("deploy", "new-quantizer"),
    *("quantizers", "training", "packed", "export", "integrations", "native", "lab"),
    *("command-line", "file-format"),
    *("does-it-beat-hard-quantization", "paper-tables", "larger-networks", "one-bit-or-ternary"),
    *("schedule", "last-or-best", "phase-two", "final-strength", "figure-3", "momentum"),
    *("which-ternary", "float-start"),
    *("packed-networks", "native-runtime", "performance", "training-speed", "projection-speed"),
    *("checklist", "tables", "recipes", "theory", "reading-the-tables"),
    *("house", "walks", "maths"),
)
LINK = re.compile(r"(?<!!)\[([^\]\n]+)\]\(([^)\s]+)\)")
COMMANDS = "<!-- commands -->"
SERVER = re.compile(r"https://unpkg\.com/[^\"'`\s]+")  # where the theme gets scripts we do not use
log = logging.getLogger("mkdocs.site_hooks")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The navigation, from the folders."""
    docs = Path(config.docs_dir)
    config.nav = [{"Home": "index.md"}, *sections(docs)]
    return config


def sections(docs: Path) -> list[dict[str, list[str]]]:
    """Each section that has pages, and these in order."""
    found = []
    for title, folder in SECTIONS.items():
        pages = [*(docs / folder).glob("*.md")]
        if pages:
            names = [page.relative_to(docs).as_posix() for page in sorted(pages, key=_place)]
            found.append({title: names})
    return found


def _place(page: Path) -> tuple[int, int, str]:
    if page.stem == "index":
        return (0, 0, "")
    return (1, ORDER.index(page.stem), "") if page.stem in ORDER else (2, 0, page.stem)


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """The page with its commands, and without links to files that the site does not hold."""
    if COMMANDS in markdown:
        markdown = markdown.replace(COMMANDS, command_reference())
    return without_outside_links(markdown, page.file.src_uri)


def on_post_build(config: MkDocsConfig, **_: Any) -> None:
    """The theme's scripts name no server: an empty script stands for mermaid and old polyfills."""
    for script in Path(config.site_dir, "assets", "javascripts").glob("*.js"):
        script.write_text(SERVER.sub("data:text/javascript,", script.read_text()))


def without_outside_links(markdown: str, page: str) -> str:
    """Links to files of the repository outside of docs/ become their words and the file's name."""

    def replaced(match: re.Match[str]) -> str:
        words, target = match.groups()
        path = posixpath.normpath(
            posixpath.join("docs", posixpath.dirname(page), target.partition("#")[0])
        )
        if "://" in target or target.startswith(("#", "mailto:")) or path.startswith("docs/"):
            return match[0]
        if not (ROOT / path).exists():
            log.warning("%s links to %s, which is not there", page, target)
        plain = words.strip("`")
        return f"`{path}`" if plain == path else f"{words} (`{path}`)"

    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.MULTILINE | re.DOTALL)
    parts[::2] = [LINK.sub(replaced, part) for part in parts[::2]]
    return "".join(parts)


def command_reference() -> str:
    """Every command with its arguments and options, from the typer application itself."""
    from typer.main import get_command

    from binaryrelax.cli.app import OF_THE_LAB, make_app
    from binaryrelax.cli.plugins import Plugins

    whole: Any = get_command(make_app(Plugins.installed()))
    lacking = set(OF_THE_LAB) - whole.commands.keys()
    if lacking:
        log.warning("the lab's commands are not installed: %s", ", ".join(sorted(lacking)))
    order = [*OF_THE_LAB, *(name for name in whole.commands if name not in OF_THE_LAB)]
    parts = ["## binaryrelax\n", _table([p for p in whole.params if not p.hidden])]
    for name in order:
        if name in whole.commands:
            parts += [f"## {name}\n", _command(name, whole.commands[name])]
    return "\n".join(parts)


def _command(name: str, command: Any) -> str:
    shown = [part for part in command.params if not part.hidden]
    arguments = [_metavar(part) for part in shown if part.param_type_name == "argument"]
    usage = " ".join(["binaryrelax", name, *arguments, "[OPTIONS]"])
    prose, _, examples = (command.help or "").partition("Examples:")
    text = [f"```text\n{usage}\n```\n", prose.strip() + "\n", _table(shown)]
    lines = [line.removeprefix("    ") for line in examples.splitlines() if line.strip()]
    if lines:
        text += ["Examples:\n", "```text", *lines, "```\n"]
    return "\n".join(text)


def _metavar(part: Any) -> str:
    name = str(part.metavar or part.name.rstrip("_")).upper()
    return name if part.required else f"[{name}]"


def _table(parts: list[Any]) -> str:
    rows = [f"| {_names(p)} | {_default(p)} | {_cell(p.help or '')} |" for p in parts]
    return "\n".join(["| | default | |", "| --- | --- | --- |", *rows, ""])


def _names(part: Any) -> str:
    if part.param_type_name == "argument":
        return f"`{_metavar(part)}`"
    return ", ".join(f"`{name}`" for name in [*part.opts, *part.secondary_opts])


def _default(part: Any) -> str:
    if part.required:
        return "required"
    if part.default is None or part.default is False or part.default in ((), []):
        return ""
    return f"`{part.default}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
