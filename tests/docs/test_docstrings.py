"""Every public name says what it is, and shows it: the examples in docstrings run."""

import ast
import doctest
import inspect
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest
import torch

import binaryrelax
from tests.support.done_once import read_sources_of_onnxscript_once

ROOT = Path(__file__).parents[2]
NATIVE_STUB = ROOT / "native" / "binaryrelax_native" / "_native.pyi"
LAB = {  # names of the lab that others may call; the reference shows them
    "models": ("build_network",),
    "data": ("load_dataset",),
    "language": ("load_corpus",),
    "recipes": ("Recipe", "describe_recipes", "find_recipe"),
    "engine": ("Job", "RunFolder", "RunOptions", "job_with_ancestor", "train", "train_all"),
    "results": ("EpochRecord", "RunResult", "Summary", "collect_runs", "read_run"),
}
NEEDS = {  # what an example needs beyond the library
    "binaryrelax.accelerate": ("binaryrelax_native",),
    "binaryrelax.export_onnx": ("onnx", "onnxscript", "onnxruntime"),
    "binaryrelax.export_openvino": ("onnx", "onnxscript", "openvino"),
}

read_sources_of_onnxscript_once()


def public_names(module: ModuleType) -> list[str]:
    found = {n for n, v in vars(module).items() if n[0] != "_" and not isinstance(v, ModuleType)}
    return [f"{module.__name__}.{name}" for name in sorted(found)]


def names_of_the_lab() -> list[str]:
    return [f"binaryrelax_lab.{room}.{name}" for room, names in LAB.items() for name in names]


def names_of_the_runtime() -> list[str]:
    """None where there was no compiler to build it with."""
    if find_spec("binaryrelax_native") is None:
        return []
    return public_names(import_module("binaryrelax_native"))


NAMES = [*public_names(binaryrelax), *names_of_the_lab(), *names_of_the_runtime()]


def named(name: str) -> object:
    module, _, last = name.rpartition(".")
    return getattr(import_module(module), last)


def docstring(name: str) -> str:
    """Without the signature that nanobind writes before that of a function."""
    text = inspect.cleandoc(named(name).__doc__ or "")
    signature = rf"{name.rpartition('.')[2]}\(.*\) -> .*\n+"
    return re.sub(rf"\A{signature}", "", text)


def arguments_in(text: str) -> list[str]:
    """The names that a section ``Args:`` explains."""
    section = re.search(r"^Args:\n((?:(?: {4}.*)?\n)*)", text + "\n", re.MULTILINE)
    return re.findall(r"^ {4}(\w+):", section[1], re.MULTILINE) if section else []


def stubs() -> dict[str, ast.ClassDef | ast.FunctionDef]:
    """What editors know of the runtime, by name."""
    parts = ast.parse(NATIVE_STUB.read_text()).body
    return {part.name: part for part in parts if isinstance(part, ast.ClassDef | ast.FunctionDef)}


def parameters_of(name: str) -> list[str]:
    """From the stub where Python cannot look into the object."""
    try:
        return [*inspect.signature(named(name)).parameters]
    except ValueError:
        functions = ast.walk(stubs()[name.rpartition(".")[2]])
        made_by = next(f for f in functions if isinstance(f, ast.FunctionDef))
        return [argument.arg for argument in made_by.args.args]


def test_every_public_name_has_an_example():
    assert not [name for name in NAMES if ">>> " not in docstring(name)]


@pytest.mark.parametrize("name", NAMES)
def test_the_example_runs(name, tmp_path, monkeypatch):
    for package in NEEDS.get(name, ()):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    test = doctest.DocTestParser().get_doctest(docstring(name), {}, name, None, 0)
    said: list[str] = []
    doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    assert not said, "\n" + "".join(said)


@pytest.mark.parametrize("name", NAMES)
def test_the_docstring_is_in_form(name):
    text = docstring(name)
    assert text.partition("\n")[0].endswith(".")
    if arguments := arguments_in(text):
        known = parameters_of(name)
        assert not [argument for argument in arguments if argument not in known], known


def test_the_runtime_is_described_to_editors_as_to_callers():
    compiled = [n for n in names_of_the_runtime() if named(n).__module__.endswith("._native")]
    for name in compiled:
        assert ast.get_docstring(stubs()[name.rpartition(".")[2]]) == docstring(name)


HOSTED = "binaryrelax.integrations."  # needs other libraries
MONITOR = "binaryrelax.optim.monitor.monitor"  # the site takes the shorter name for the module


def test_the_reference_shows_only_names_that_are_tested():
    pages = (ROOT / "docs" / "reference").glob("*.md")
    text = "".join(page.read_text() for page in pages)
    shown = set(
        re.findall(r"^::: (\S+)", text.replace(MONITOR, "binaryrelax.monitor"), re.MULTILINE)
    )
    native = {name for name in shown if name.startswith("binaryrelax_native.")}
    hosted = {name for name in shown if name.startswith(HOSTED)}  # the pages with them run
    assert shown - native - hosted <= set(NAMES)
    assert not names_of_the_runtime() or native <= set(NAMES)


def test_the_checks_see_what_is_wrong():
    args = "Args:\n    x: one\n        note: long.\n    y: two\n"
    assert arguments_in(f"A.\n\n{args}\nRaises:\n    z: three") == ["x", "y"]
    assert len(NAMES) > 60
