"""What somebody installs who only runs networks: the built wheel and numpy, nothing else."""

import shutil
import subprocess
import sys
import venv
import zipfile
from importlib.util import find_spec
from pathlib import Path

import binaryrelax_native as native
import numpy as np
import pytest
from native.tests.network_files import INPUTS, networks

NATIVE = Path(__file__).parents[1]
MOST_BYTES = 3_000_000  # of the wheel
HAS_TOOLS = shutil.which("c++") and find_spec("scikit_build_core") and find_spec("nanobind")

RUN = """
import sys
from importlib.util import find_spec
from pathlib import Path

import binaryrelax_native as native
import numpy as np

assert find_spec("torch") is None
folder = Path(sys.argv[1])
assert str(folder) in native.__file__, native.__file__
for path in sorted(folder.glob("*.brx")):
    stored = np.load(path.with_suffix(".npz"))
    network = native.load(path, threads=2)
    inputs = [stored[f"in{number}"] for number in range(len(network.input_shapes))]
    found = network(*inputs)
    for number, output in enumerate(found if isinstance(found, tuple) else (found,)):
        assert np.array_equal(output, stored[f"out{number}"]), path
    print(path.name, network.run_time_ms(*inputs))
foreign = {name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names)
print(sorted(name for name in foreign if not name.startswith("_")))
"""


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from a copy: building leaves nothing in the tree."""
    if not HAS_TOOLS:
        pytest.skip("needs a C++ compiler, scikit-build-core and nanobind")
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(NATIVE, folder / "native", ignore=shutil.ignore_patterns("build", "tests"))
    build = (sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps")
    run(*build, "--wheel-dir", folder, folder / "native")
    return next(folder.glob("*.whl"))


def write_networks(folder):
    """Every network, with inputs and what this process makes of them."""
    for name, content in networks().items():
        path = folder / f"{name.replace(' ', '-')}.brx"
        path.write_bytes(content)
        random = np.random.default_rng(0)
        shapes = INPUTS[name.split()[0]]
        inputs = [random.normal(size=(3, *shape)).astype(np.float32) for shape in shapes]
        found = native.load(path, threads=2)(*inputs)
        found = found if isinstance(found, tuple) else (found,)
        arrays = {f"in{number}": x for number, x in enumerate(inputs)}
        arrays |= {f"out{number}": y for number, y in enumerate(found)}
        np.savez(path.with_suffix(".npz"), **arrays)


@pytest.mark.slow
def test_the_wheel_is_small_and_holds_the_runtime_alone(wheel):
    assert wheel.stat().st_size < MOST_BYTES
    names = zipfile.ZipFile(wheel).namelist()
    kinds = {name.partition("/")[0] for name in names if "dist-info" not in name}
    assert kinds == {"binaryrelax_native"}
    assert {"binaryrelax_native/py.typed", "binaryrelax_native/network.py"} <= set(names)
    assert sum("licenses/" in name for name in names) == 2


@pytest.mark.slow
def test_networks_run_where_there_is_no_torch(wheel, tmp_path):
    venv.create(tmp_path / "env", with_pip=False)
    python = tmp_path / "env" / "bin" / "python"
    packages = Path(
        run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    )
    numpy = Path(np.__file__).parent
    for folder in (numpy, numpy.with_name("numpy.libs")):
        if folder.is_dir():
            shutil.copytree(folder, packages / folder.name)
    zipfile.ZipFile(wheel).extractall(packages)
    write_networks(tmp_path)
    *times, modules = run(python, "-I", "-c", RUN, tmp_path).splitlines()
    assert len(times) == len(networks())
    assert modules == "['binaryrelax_native', 'numpy']"
