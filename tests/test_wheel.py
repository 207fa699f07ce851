"""What strangers install: the built wheel, in an empty environment, outside the tree."""

import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run(*command: object, cwd: Path) -> str:
    done = subprocess.run([str(c) for c in command], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"  # a copy, so that building leaves nothing in the tree
    unwanted = shutil.ignore_patterns(".*", "*.egg-info", "__pycache__", "build", "demo", "tests")
    shutil.copytree(ROOT, source, ignore=unwanted)
    build = (sys.executable, "-m", "build", "--wheel", "--no-isolation")
    run(*build, "--outdir", folder, source, cwd=folder)
    return next(folder.glob("*.whl"))


def test_wheel_holds_types_data_and_licences_but_no_tests(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert "binaryrelax/py.typed" in names
    assert "binaryrelax/lab/data/fashion_mnist.npz" in names
    assert sum("licenses/" in name for name in names) >= 2
    assert not [name for name in names if name.startswith("tests")]
    assert wheel.stat().st_size < 7e6


@pytest.mark.slow
def test_wheel_installs_into_an_empty_environment(wheel, tmp_path):
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", wheel, cwd=tmp_path)
    code = (
        "import binaryrelax, torch; w = torch.randn(9); q = binaryrelax.Ternary();"
        "print(binaryrelax.__file__, torch.equal(q.project(q.project(w)), q.project(w)))"
    )
    where, works = run(python, "-c", code, cwd=tmp_path).split()
    assert str(tmp_path) in where and works == "True"
    missing = subprocess.run(
        [python, "-m", "binaryrelax", "demo"], cwd=tmp_path, capture_output=True, text=True
    )
    assert missing.returncode == 1
    assert "pip install '.[lab]' in the source folder" in missing.stderr
