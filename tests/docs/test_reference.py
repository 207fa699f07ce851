"""Every public name is on exactly one page of the reference."""

import ast
import re
from collections import Counter
from types import ModuleType

import pytest

import binaryrelax
from tests.docs.pages import ROOT

REFERENCE = ROOT / "docs" / "reference"


INTEGRATIONS = REFERENCE / "integrations.md"  # whose names need other libraries


def documented(package, pages=None):
    pages = pages or [page for page in sorted(REFERENCE.glob("*.md")) if page != INTEGRATIONS]
    text = "".join(page.read_text() for page in pages)
    return Counter(re.findall(rf"^::: {package}\.(?:\w+\.)*(\w+)$", text, re.MULTILINE))


def test_every_public_name_is_on_one_page():
    public = {
        name
        for name, value in vars(binaryrelax).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert len(public) > 40
    assert documented("binaryrelax") == Counter(public)


def test_every_name_of_the_runtime_is_on_one_page():
    source = (ROOT / "native" / "binaryrelax_native" / "__init__.py").read_text()
    public = set(re.findall(r"\b([A-Za-z]\w*) as \1\b", source))
    assert public and documented("binaryrelax_native") == Counter(public)


@pytest.mark.parametrize("host", ["huggingface", "lightning"])
def test_every_name_of_the_integrations_is_on_their_page(host):
    source = (ROOT / "src" / "binaryrelax" / "integrations" / f"{host}.py").read_text()
    defined = [n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef | ast.ClassDef)]
    public = {node.name for node in defined if not node.name.startswith("_")}
    assert public and documented(f"binaryrelax.integrations.{host}", [INTEGRATIONS]) == Counter(
        public
    )


def test_every_public_name_has_a_docstring():
    without = [name for name in documented("binaryrelax") if not getattr(binaryrelax, name).__doc__]
    assert not without
