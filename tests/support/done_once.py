"""What Triton's interpreter and torch's ONNX exporter find out anew at each call, found out once.

Both look through a library of functions again and again, which takes longer than our own code.
Where a version of theirs has other names inside, nothing is done: the tests then only take longer.
"""

import functools
import inspect
from importlib import import_module
from types import ModuleType


def _module(name: str) -> ModuleType | None:
    try:
        return import_module(name)
    except ImportError:
        return None


def find_builtins_of_triton_once() -> None:
    """The interpreter searches Triton's language for its builtins at every call of a function."""
    interpreter = _module("triton.runtime.interpreter")
    if not hasattr(interpreter, "_patch_builtin") or not hasattr(interpreter, "_patch_attr"):
        return
    core = interpreter.tl.core

    @functools.cache
    def names_in(package) -> tuple[str, ...]:
        return tuple(name for name, _ in inspect.getmembers(package, core.is_builtin))

    def patch_builtin(package, *arguments) -> None:
        names = names_in(package)
        if names and not core.is_builtin(getattr(package, names[0])):
            return  # all are replaced together
        for name in names:
            interpreter._patch_attr(package, name, getattr(package, name), *arguments)

    language = interpreter.tl
    for package in (language, core, language.math, core.tensor, core.tensor_descriptor_base):
        names_in(package)  # while nothing is replaced
    interpreter._patch_builtin = patch_builtin


def read_sources_of_onnxscript_once() -> None:
    """The exporter reads the source of each of some 500 functions at every export."""
    values = _module("onnxscript._internal.values")
    traced = getattr(values, "TracedOnnxFunction", None)
    signature = getattr(traced, "function_ir", None)
    if isinstance(signature, property):
        traced.function_ir = property(functools.cache(signature.fget))
