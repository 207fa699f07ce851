"""The house rules that a tool can check: who imports whom, and what a plain import costs."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "binaryrelax"
LIBRARY = {"torch", "numpy", "safetensors"}
ALLOWED = {  # room -> rooms it may import
    "quantizers": {"quantizers"},
    "kernels": {"kernels", "quantizers"},
    "optim": {"optim", "quantizers", "kernels"},
    "packed": {"packed", "quantizers", "kernels"},
}
OUTSIDE = {"quantizers": {"torch"}, "kernels": {"torch", "triton"}}  # else LIBRARY
IMPORTING_FUNCTIONS = {"import_module", "needed"}
EXPORT = {"onnx", "onnxscript", "onnxruntime", "openvino"}  # for packed/export/ alone


def imported_modules(file: Path) -> set[str]:
    """Every module that the file imports, relative imports made absolute."""
    package = ["binaryrelax", *file.relative_to(PACKAGE).parts[:-1]]
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*start, *([node.module] if node.module else [])])
            names = {f"{module}.{alias.name}" for alias in node.names}
            found |= names if module == "binaryrelax" else {module}
    return found


def library_files() -> list[tuple[str, Path]]:
    return [(room, file) for room in ALLOWED for file in sorted((PACKAGE / room).rglob("*.py"))]


@pytest.mark.parametrize(
    ("room", "file"), library_files(), ids=lambda x: x.stem if isinstance(x, Path) else x
)
def test_imports_point_one_way(room, file):
    for module in imported_modules(file):
        top, *rest = module.split(".")
        if top == "binaryrelax":
            assert rest[0] in ALLOWED[room], f"{file.name} imports {module}"
        elif top not in sys.stdlib_module_names:
            allowed = OUTSIDE.get(room, LIBRARY)
            assert top in allowed or is_export(file), f"{file.name} imports {module}"


def is_export(file: Path) -> bool:
    return file.parent == PACKAGE / "packed" / "export"


def modules_named_in_calls(file: Path) -> set[str]:
    """What the file imports by calling a function with the module's name."""
    calls = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]
    importing = [c for c in calls if ast.unparse(c.func).split(".")[-1] in IMPORTING_FUNCTIONS]
    names = [ast.literal_eval(c.args[0]) for c in importing if isinstance(c.args[0], ast.Constant)]
    return {name.split(".")[0] for name in names}


def test_only_the_export_imports_other_runtimes():
    users = {file for _, file in library_files() if EXPORT & modules_named_in_calls(file)}
    assert {file.name for file in users} >= {"onnx.py", "openvino.py"}, "the rule sees nothing"
    assert all(is_export(file) for file in users)
    for file in (PACKAGE / "packed" / "export").glob("*.py"):
        outside = {module.split(".")[0] for module in imported_modules(file)}
        assert outside <= {*LIBRARY, *sys.stdlib_module_names, "binaryrelax", *EXPORT}, file


def test_models_know_nothing_of_quantization():
    for file in (PACKAGE / "lab" / "models").rglob("*.py"):
        for module in imported_modules(file):
            assert not module.startswith("binaryrelax") or ".lab.models" in module, file


def test_the_rules_see_a_violation():
    """A planted import is found: the checks above are not vacuous."""
    assert {room for room, _ in library_files()} >= {"quantizers", "optim"}
    modules = imported_modules(PACKAGE / "optim" / "optimizer.py")
    assert "binaryrelax.quantizers" in modules and "torch" in modules


def test_importing_the_library_needs_no_extra():
    """`import binaryrelax` loads no module of the lab's dependencies."""
    extras = {"typer", "rich", "matplotlib", "PIL", "tensorboard", "binaryrelax.lab", *EXPORT}
    loading = "import sys, binaryrelax, binaryrelax.packed.export"
    code = f"{loading}; print(sorted(set(sys.modules) & {extras!r}))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_public_names_are_explicit():
    import binaryrelax

    public = {name for name in vars(binaryrelax) if not name.startswith("_")}
    rooms = {"quantizers", "kernels", "optim", "packed", "lab", "cli"}
    fixed = {
        "Binary", "Ternary", "TernaryThreshold", "Uniform", "PowerOfTwo", "Levels", "OneStepLloyd",
        "PerLayer", "PerChannel", "PerGroup", "distance", "select_weights", "BinaryRelax",
        "ProjectedGradient", "GeometricGrowth", "LinearMix", "Hard", "measure", "monitor",
        "pack", "save_packed", "load_packed", "certify", "Certificate", "PackedFileError",
        "PackedLinear", "PackedConv2d",
    }  # fmt: skip
    assert fixed <= public
    assert not [n for n in public - rooms if getattr(binaryrelax, n).__module__ == "builtins"]
