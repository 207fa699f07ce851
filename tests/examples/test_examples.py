"""Each example runs in its short form, prints what it promises and leaves a packed file."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from binaryrelax import certify

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path.stem for path in (ROOT / "examples").glob("*.py"))
PATIENCE = 120  # seconds; each takes under thirty on one free core


def run_example(name: str, folder: Path, *options: str) -> str:
    """What the example prints, run by a Python of its own in an empty folder."""
    paths = [str(ROOT / "src"), str(ROOT / "lab"), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "OMP_NUM_THREADS": "1",
        "PYTHONIOENCODING": "utf-8",
    }
    command = [sys.executable, str(ROOT / "examples" / f"{name}.py"), *options]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def figure(text: str, pattern: str) -> float:
    """The number that the pattern captures."""
    found = re.search(pattern, text)
    assert found, f"{pattern} is not in:\n{text}"
    return float(found[1])


def assert_certified(file: Path, num_layers: int) -> None:
    certificate = certify(file)
    assert certificate.ok and len(certificate.layers) == num_layers
    assert all(layer.codebook == (-1, 0, 1) for layer in certificate.layers)
    assert all(layer.distinct_values <= 3 for layer in certificate.layers)


def assert_strength_grew_without_bound(printed: str) -> None:
    strengths = [float(text) for text in re.findall(r"λ +(\S+)", printed)]
    assert len(strengths) >= 5 and strengths[0] < 10 and strengths[-1] == float("inf")


def test_image_classifier_classifies_from_a_packed_file(tmp_path):
    printed = run_example("image_classifier", tmp_path, "--short", "--picture", "weights.png")
    assert_strength_grew_without_bound(printed)
    assert_certified(tmp_path / "classifier.safetensors", num_layers=3)
    last = figure(printed, r"ternary: last (\S+) %")
    assert last > 50  # of ten classes, after ten seconds of training
    assert abs(figure(printed, r"loaded: +(\S+) %") - last) <= 0.1  # folding rounds
    assert re.search(r"image 0: the network says .+, the label Ankle boot", printed)
    assert (tmp_path / "weights.png").read_bytes().startswith(b"\x89PNG")


def test_resnet_from_a_state_dict_becomes_ternary(tmp_path):
    printed = run_example("resnet_from_state_dict", tmp_path, "--short")
    assert_strength_grew_without_bound(printed)
    assert_certified(tmp_path / "resnet20.safetensors", num_layers=19)
    at_once = figure(printed, r"projected at once, untrained: (\S+) %")
    last = figure(printed, r"ternary: last (\S+) %")
    assert last > at_once + 10
    assert abs(figure(printed, r"loaded: (\S+) %") - last) <= 0.5


def test_packed_deployment_agrees_with_onnx(tmp_path):
    printed = run_example("packed_deployment", tmp_path, "--short")
    assert "certified: 19 packed layers, all in Q" in printed
    assert "noise: the network says " in printed
    assert figure(printed, r"largest difference (\S+) of") < 1e-4
    assert printed.count("same class for 4 of 4 images") >= 1
    assert (tmp_path / "resnet20.onnx").stat().st_size > 50_000
    if find_spec("binaryrelax_native"):
        assert re.search(r"native, exact: .*\n  same class for 4 of 4 images", printed)
        assert "native, fast: resnet20.brx" in printed


@pytest.mark.peers
def test_huggingface_trainer_resumes_to_the_same_bits(tmp_path):
    pytest.importorskip("transformers")
    printed = run_example("huggingface_trainer", tmp_path, "--short")
    assert_strength_grew_without_bound(printed)
    assert "14 ternary weights, farthest from Q: 0.0" in printed
    assert "resumed run equal to the whole one: True" in printed
    assert_certified(tmp_path / "llama.safetensors", num_layers=14)
    assert "it writes: 'Ternary " in printed


@pytest.mark.peers
def test_lightning_module_resumes_to_the_same_bits(tmp_path):
    pytest.importorskip("lightning")
    printed = run_example("lightning_module", tmp_path, "--short")
    assert_strength_grew_without_bound(printed)
    assert "2 ternary weights, farthest from Q: 0.0" in printed
    assert "resumed run equal to the whole one: True" in printed
    assert_certified(tmp_path / "spirals.safetensors", num_layers=2)
    assert figure(printed, r"loaded: (\S+) %") > 90


PEERS = {"huggingface_trainer", "lightning_module"}
MARKED = [pytest.param(n, marks=[pytest.mark.peers] if n in PEERS else []) for n in EXAMPLES]


@pytest.mark.parametrize("name", MARKED)
def test_help_names_the_short_form(name, tmp_path):
    printed = run_example(name, tmp_path, "--help")
    assert "--short" in printed and "--out" in printed


def test_every_example_is_in_the_table_and_tested():
    table = (ROOT / "examples" / "README.md").read_text()
    tests = Path(__file__).read_text()
    for name in EXAMPLES:
        assert f"[{name}.py]({name}.py)" in table
        assert f'run_example("{name}", tmp_path, "--short"' in tests
        head = (ROOT / "examples" / f"{name}.py").read_text().split('"""')[1]
        assert f"python examples/{name}.py" in head and "HEAD_" not in head
