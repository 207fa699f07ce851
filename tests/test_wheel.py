"""What strangers install: the built wheels, in an empty environment, outside the tree."""

import re
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MOST_BYTES = 400_000  # of the library's wheel


def run(*command: object, cwd: Path) -> str:
    done = subprocess.run([str(c) for c in command], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def built(source: Path, package: str, folder: Path) -> Path:
    """The wheel of a distribution, from a copy: building leaves nothing in the tree."""
    unwanted = shutil.ignore_patterns("*.egg-info", "__pycache__")
    shutil.copytree(source / package, folder / "source" / package, ignore=unwanted)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(source / name, folder / "source")
    build = (sys.executable, "-m", "build", "--wheel", "--no-isolation")
    run(*build, "--outdir", folder, folder / "source", cwd=folder)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    return built(ROOT, "src", tmp_path_factory.mktemp("library"))


@pytest.fixture(scope="module")
def lab_wheel(tmp_path_factory) -> Path:
    return built(ROOT / "lab", "binaryrelax_lab", tmp_path_factory.mktemp("lab"))


def files_in(wheel: Path) -> list[str]:
    return zipfile.ZipFile(wheel).namelist()


def test_wheel_of_the_library_holds_types_and_licence_but_no_data_lab_or_tests(wheel):
    names = files_in(wheel)
    assert "binaryrelax/py.typed" in names
    assert sum("licenses/" in name for name in names) == 1
    told = {name.split("/")[0] for name in names if "dist-info" not in name}
    assert told == {"binaryrelax", "binaryrelax_command.py"}
    inside = [name for name in names if name.startswith("binaryrelax/")]
    assert all(name.endswith((".py", "py.typed")) for name in inside)
    assert wheel.stat().st_size < MOST_BYTES


def test_library_needs_torch_numpy_and_safetensors_only(wheel):
    archive = zipfile.ZipFile(wheel)
    metadata = next(name for name in archive.namelist() if name.endswith("METADATA"))
    lines = archive.read(metadata).decode().splitlines()
    needed = [line for line in lines if line.startswith("Requires-Dist:") and "extra" not in line]
    assert {re.split(r"[ >;]", line)[1] for line in needed} == {"torch", "numpy", "safetensors"}


def test_wheel_of_the_lab_holds_its_data_pages_and_licences_but_no_tests(lab_wheel):
    names = files_in(lab_wheel)
    assert "binaryrelax_lab/data/fashion_mnist.npz" in names
    assert "binaryrelax_lab/py.typed" in names
    assert sum("licenses/" in name for name in names) == 2
    package = ROOT / "lab" / "binaryrelax_lab"
    for kind in ("py", "css", "js", "html", "md"):
        for path in package.rglob(f"*.{kind}"):
            assert path.relative_to(package.parent).as_posix() in names
    assert not [name for name in names if "tests" in name]
    assert lab_wheel.stat().st_size < 7e6


def examples_of_readme() -> str:
    """The quick start and the packed example."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    return "".join(blocks)


@pytest.mark.slow
def test_library_alone_runs_the_readme_and_its_command(wheel, tmp_path):
    """In an empty environment; then with [cli]; commands of the lab say what is missing."""
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    install = (python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt")
    run(*install, wheel, cwd=tmp_path)
    (tmp_path / "readme.py").write_text(examples_of_readme())
    run(python, "readme.py", cwd=tmp_path)
    assert str(tmp_path) in run(python, "-c", "import binaryrelax as b; print(b.__file__)", cwd="/")

    command = (python, "-m", "binaryrelax")
    missing = subprocess.run([*command, "certify"], cwd=tmp_path, capture_output=True, text=True)
    assert missing.returncode == 1
    assert "pip install '.[cli]' in the source folder" in missing.stderr

    run(*install, f"{wheel}[cli]", cwd=tmp_path)
    assert "certified 2 layers" in run(*command, "certify", "net.safetensors", cwd=tmp_path)
    missing = subprocess.run([*command, "train"], cwd=tmp_path, capture_output=True, text=True)
    assert missing.returncode == 1
    assert "train is a command of binaryrelax-lab, which is not installed" in missing.stderr
