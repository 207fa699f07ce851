"""What strangers install: the built wheels, in an empty environment, outside the tree."""

import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

from binaryrelax import __version__

ROOT = Path(__file__).parents[1]
MOST_BYTES = 400_000  # of the library's wheel


def run(*command: object, cwd: Path) -> str:
    done = subprocess.run([str(c) for c in command], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def built(source: Path, package: str, folder: Path) -> Path:
    """The wheel of a distribution, made from its sdist, which lies beside it.

    All is made from a copy: building leaves nothing in the tree.
    """
    unwanted = shutil.ignore_patterns("*.egg-info", "__pycache__", "build")
    shutil.copytree(source / package, folder / "source" / package, ignore=unwanted)
    shutil.copytree(source / "tests", folder / "source" / "tests", ignore=unwanted)
    for path in source.iterdir():
        if path.is_file():
            shutil.copy(path, folder / "source")
    build = (sys.executable, "-m", "build", "--no-isolation")
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


def files_in_sdist_of(wheel: Path) -> set[str]:
    """Without the folder that all of them are in, and what the build adds."""
    with tarfile.open(next(wheel.parent.glob("*.tar.gz"))) as archive:
        names = {m.name.partition("/")[2] for m in archive.getmembers() if m.isfile()}
    return {name for name in names if "egg-info" not in name} - {"PKG-INFO", "setup.cfg"}


def metadata_of(wheel: Path):
    """What an index shows of it: headers, and the long description as the content."""
    archive = zipfile.ZipFile(wheel)
    name = next(name for name in archive.namelist() if name.endswith("METADATA"))
    return message_from_bytes(archive.read(name))


def description_of(wheel: Path) -> str:
    return metadata_of(wheel).get_payload(decode=True).decode()


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
    needed = [n for n in metadata_of(wheel).get_all("Requires-Dist") if "extra" not in n]
    assert {re.split(r"[ >;]", name)[0] for name in needed} == {"torch", "numpy", "safetensors"}


def test_both_have_the_version_of_the_library_and_the_lab_needs_no_older_one(wheel, lab_wheel):
    assert [metadata_of(w)["Version"] for w in (wheel, lab_wheel)] == [__version__] * 2
    assert f"binaryrelax[cli]>={__version__}" in metadata_of(lab_wheel).get_all("Requires-Dist")


def test_sdist_of_the_library_is_its_source_and_no_tests_results_or_networks(wheel):
    names = files_in_sdist_of(wheel)
    assert {name.partition("/")[0] for name in names} == {
        "src", "pyproject.toml", "MANIFEST.in", "LICENSE", "CHANGELOG.md", "CITATION.cff",
    }  # fmt: skip
    assert {f"src/{name}" for name in files_in(wheel) if "dist-info" not in name} <= names
    assert next(wheel.parent.glob("*.tar.gz")).stat().st_size < MOST_BYTES


def test_sdist_of_the_lab_is_its_source_and_no_tests(lab_wheel):
    names = files_in_sdist_of(lab_wheel)
    assert {name.partition("/")[0] for name in names} == {
        "binaryrelax_lab", "pyproject.toml", "MANIFEST.in", "LICENSE", "README.md",
    }  # fmt: skip
    assert {name for name in files_in(lab_wheel) if "dist-info" not in name} <= names


def test_long_descriptions_lead_nowhere_in_the_repository(wheel, lab_wheel):
    """An index shows them alone: relative links and pictures would be broken there."""
    native = (ROOT / "native" / "README.md").read_text()
    for text in (description_of(wheel), description_of(lab_wheel), native):
        links = re.findall(r"\]\(([^)]*)\)|(?:src|href)=\"([^\"]*)\"", text)
        assert all("".join(link).startswith("https://") for link in links), links


def test_python_of_the_long_description_runs(wheel, tmp_path, monkeypatch):
    [code] = re.findall(r"```python\n(.*?)```", description_of(wheel), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "long description", "exec"), {"__name__": "__main__"})
    assert (tmp_path / "net.safetensors").is_file()


def test_wheel_of_the_lab_holds_its_data_pages_and_licences_but_no_tests(lab_wheel):
    names = files_in(lab_wheel)
    assert "binaryrelax_lab/data/fashion_mnist.npz" in names
    assert "binaryrelax_lab/language/austen/train.txt.xz" in names
    assert "binaryrelax_lab/py.typed" in names
    assert sum("licenses/" in name for name in names) == 3
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
