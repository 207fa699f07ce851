"""Templates filled with figures: HTML, where every value is escaped, and Markdown."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from binaryrelax_lab.report.run_facts import circumstances, layer_table, shown
from binaryrelax_lab.results.statistics import counted


def html(template: str, **values: object) -> str:
    """A page that needs no network: style, script, drawings and data inside."""
    return _ENVIRONMENT.get_template(template).render(values)


def markdown(template: str, macro: str, *values: object) -> str:
    """What a macro of a Markdown template makes of the values.

    A paragraph of the template is one line here, and blank lines never follow each other.
    """
    module = _ENVIRONMENT.get_template(template).module
    text = str(getattr(module, macro)(*values)).strip()
    joined = re.sub(r"(?<!\n)\n *(?![\n*|# ])", " ", text)
    return re.sub(r"\n{3,}", "\n\n", joined)


def _plain_markdown(text: str) -> str:
    """Names may come from a file of anybody: nothing in them is markup, or ends a cell."""
    return re.sub(r"([\\`*_\[\]|~])", r"\\\1", escape(" ".join(text.split()), quote=False))


def _unbroken(page: str) -> Markup:
    """Line breaks and indents of templates taken out: beside a tag nothing, else a blank."""
    beside_tags = re.sub(r"(?<=>)(\s{2,}|\n)|(\s{2,}|\n)(?=<)", "", page)
    return Markup(re.sub(r"\s{2,}|\n", " ", beside_tags))


_ENVIRONMENT = Environment(
    loader=FileSystemLoader(Path(__file__).with_name("templates")),
    autoescape=select_autoescape(["html"]),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
_ENVIRONMENT.filters |= {
    "circumstances": circumstances,
    "counted": counted,
    "layer_table": layer_table,
    "plain_markdown": _plain_markdown,
    "shown": shown,
    "unbroken": _unbroken,
}
