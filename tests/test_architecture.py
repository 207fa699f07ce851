"""The house rules that a tool can check: who imports whom, and what a plain import costs."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LIBRARY = ROOT / "src" / "binaryrelax"
LAB = ROOT / "lab" / "binaryrelax_lab"
NATIVE = ROOT / "native" / "binaryrelax_native"
BASIC = {"torch", "numpy", "safetensors"}
ROOMS = {  # room of the library -> rooms it may import
    "quantizers": {"quantizers"},
    "kernels": {"kernels", "quantizers"},
    "optim": {"optim", "quantizers", "kernels"},
    "packed": {"packed", "quantizers", "kernels"},
    "export": {"export", "packed", "quantizers"},
}
OUTSIDE = {"quantizers": {"torch"}, "kernels": {"torch", "triton"}}  # else BASIC
RUNTIMES = {"onnx", "onnxscript", "onnxruntime", "openvino"}  # for export/ alone
LAB_ROOMS = {  # room of the lab -> rooms of the lab it may import, beside files.py
    "models": set(),
    "data": set(),
    "recipes": set(),
    "results": {"recipes"},
    "engine": {"data", "models", "recipes", "results"},
    "report": {"results", "recipes"},
    "language": {"engine", "data", "recipes", "results"},
    "studies": {"engine", "language", "data", "models", "recipes", "results", "report", "packing"},
}
IMPORTING_FUNCTIONS = {"import_module", "needed"}


def imported_modules(file: Path, package: Path) -> set[str]:
    """Every module that the file imports, relative imports made absolute."""
    inside = [package.name, *file.relative_to(package).parts[:-1]]
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            start = inside[: len(inside) - node.level + 1] if node.level else []
            module = ".".join([*start, *([node.module] if node.module else [])])
            names = {f"{module}.{alias.name}" for alias in node.names}
            found |= names if module == package.name else {module}
    return found


def files_of(package: Path, rooms: dict[str, set[str]]) -> list[tuple[str, Path]]:
    return [(room, file) for room in rooms for file in sorted((package / room).rglob("*.py"))]


def name_of(value: object) -> str:
    return value.stem if isinstance(value, Path) else str(value)


@pytest.mark.parametrize(("room", "file"), files_of(LIBRARY, ROOMS), ids=name_of)
def test_imports_point_one_way(room, file):
    for module in imported_modules(file, LIBRARY):
        top, *rest = module.split(".")
        if top == "binaryrelax":
            assert rest[0] in ROOMS[room], f"{file.name} imports {module}"
        elif top not in sys.stdlib_module_names:
            allowed = OUTSIDE.get(room, BASIC) | (RUNTIMES if room == "export" else set())
            assert top in allowed, f"{file.name} imports {module}"


@pytest.mark.parametrize(("room", "file"), files_of(LAB, LAB_ROOMS), ids=name_of)
def test_imports_of_the_lab_point_one_way(room, file):
    for module in imported_modules(file, LAB):
        top, *rest = module.split(".")
        if top == "binaryrelax_lab":
            assert rest[0] in {*LAB_ROOMS[room], room, "files"}, (
                f"{room}/{file.name} imports {module}"
            )
        assert module != "binaryrelax.cli" and not module.startswith("binaryrelax.cli."), file


def test_the_library_never_imports_the_lab_and_the_runtime_nobody():
    for package in (LIBRARY, NATIVE):
        for file in package.rglob("*.py"):
            assert "binaryrelax_lab" not in {
                m.split(".")[0] for m in imported_modules(file, package)
            }
    for file in NATIVE.rglob("*.py"):
        outside = {module.split(".")[0] for module in imported_modules(file, NATIVE)}
        assert outside <= {"numpy", "binaryrelax_native", *sys.stdlib_module_names}, file


def modules_named_in_calls(file: Path) -> set[str]:
    """What the file imports by calling a function with the module's name."""
    calls = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]
    importing = [c for c in calls if ast.unparse(c.func).split(".")[-1] in IMPORTING_FUNCTIONS]
    names = [ast.literal_eval(c.args[0]) for c in importing if isinstance(c.args[0], ast.Constant)]
    return {name.split(".")[0] for name in names}


def test_only_the_export_imports_other_runtimes():
    library = [file for _, file in files_of(LIBRARY, ROOMS)]
    users = {file for file in library if RUNTIMES & modules_named_in_calls(file)}
    assert {file.name for file in users} >= {"onnx.py", "openvino.py"}, "the rule sees nothing"
    assert all(file.parent == LIBRARY / "export" for file in users)


def test_models_know_nothing_of_quantization():
    for file in (LAB / "models").rglob("*.py"):
        for module in imported_modules(file, LAB):
            assert module.split(".")[0] != "binaryrelax", file


def strings_in(file: Path) -> set[str]:
    """All text of a file but its docstrings."""
    tree = ast.parse(file.read_text())
    holders = (ast.Module, ast.ClassDef, ast.FunctionDef)
    documented = [node for node in ast.walk(tree) if isinstance(node, holders) and node.body]
    docstrings = {
        id(node.body[0].value) for node in documented if isinstance(node.body[0], ast.Expr)
    }
    texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    return {
        node.value for node in texts if isinstance(node.value, str) and id(node) not in docstrings
    }


def below_the_edge() -> list[Path]:
    library = [file for _, file in files_of(LIBRARY, ROOMS)]
    lab = [file for file in sorted(LAB.rglob("*.py")) if LAB / "commands" not in file.parents]
    return [*library, *lab]


@pytest.mark.parametrize(
    "file", below_the_edge(), ids=lambda file: f"{file.parent.name}-{file.stem}"
)
def test_nothing_below_the_commands_names_a_flag_prints_or_draws_progress(file):
    """Printing is ruff's T20 to find. Git's own flags are not those of the command."""
    package = LAB if LAB in file.parents else LIBRARY
    named = {flag for text in strings_in(file) for flag in re.findall(r"--[a-z][a-z-]*", text)}
    assert not named & flags_of_the_command(), file
    imported = {module.split(".")[0] for module in imported_modules(file, package)}
    assert not imported & {"rich", "typer"}, file
    assert not handles_signals(file) or file.name in DEAF, file


DEAF = {"image_folder.py"}  # the processes that it starts must not hear any


def handles_signals(file: Path) -> bool:
    calls = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]
    return any(ast.unparse(call.func) in ("signal.signal", "signal") for call in calls)


@cache
def flags_of_the_command() -> set[str]:
    """All options of all commands, those of the lab too."""
    from typer.main import get_command

    from binaryrelax.cli.app import make_app
    from binaryrelax.cli.plugins import Plugins

    command = get_command(make_app(Plugins.installed()))
    parts = [command, *command.commands.values()]
    return {name for part in parts for option in part.params for name in option.opts}


def test_no_file_name_means_two_things_within_a_distribution():
    for package in (LIBRARY, LAB):
        names = [file.name for file in package.rglob("*.py") if not file.name.startswith("__")]
        twice = {name for name in names if names.count(name) > 1}
        assert twice <= SAME_THING[package.name], twice - SAME_THING[package.name]


SAME_THING = {  # one concept that several rooms have to do with
    "binaryrelax": set(),
    "binaryrelax_lab": {
        *("demo.py", "campaign.py", "cifar.py", "language.py", "network.py", "task.py"),
    },
}


def test_the_rules_see_a_violation():
    """A planted import is found: the checks above are not vacuous."""
    assert {room for room, _ in files_of(LIBRARY, ROOMS)} == ROOMS.keys()
    assert {room for room, _ in files_of(LAB, LAB_ROOMS)} == LAB_ROOMS.keys()
    assert handles_signals(LAB / "commands" / "signals.py")
    modules = imported_modules(LIBRARY / "optim" / "optimizer.py", LIBRARY)
    assert "binaryrelax.quantizers" in modules and "torch" in modules


def test_every_source_folder_has_tests_of_the_same_name():
    for package, tests in ((LIBRARY, ROOT / "tests"), (LAB, ROOT / "lab" / "tests")):
        for folder in package.rglob("*/"):
            if list(folder.glob("*.py")) and "__pycache__" not in folder.parts:
                mirror = tests / folder.relative_to(package)
                assert list(mirror.glob("test_*.py")), f"{mirror} has no tests"


def test_importing_the_library_needs_no_extra():
    """`import binaryrelax` loads nothing of the command, the lab or other run times."""
    extras = {"typer", "rich", "matplotlib", "PIL", "tensorboard", "binaryrelax_lab", *RUNTIMES}
    loading = "import sys, binaryrelax, binaryrelax.export"
    code = f"{loading}; print(sorted(set(sys.modules) & {extras!r}))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_public_names_are_explicit():
    import binaryrelax

    public = {name for name in vars(binaryrelax) if not name.startswith("_")}
    rooms = {*ROOMS, "cli"}
    fixed = {
        "Binary", "Ternary", "TernaryThreshold", "Uniform", "PowerOfTwo", "Levels", "OneStepLloyd",
        "TernaryAbsMean", "PerLayer", "PerChannel", "PerGroup", "distance", "select_weights",
        "BinaryRelax",
        "ProjectedGradient", "GeometricGrowth", "LinearMix", "Hard", "measure", "monitor",
        "pack", "save_packed", "load_packed", "certify", "Certificate", "PackedFileError",
        "PackedLinear", "PackedConv2d", "export_onnx", "export_openvino",
    }  # fmt: skip
    assert fixed <= public
    assert not [n for n in public - rooms if getattr(binaryrelax, n).__module__ == "builtins"]
