import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import torch
from lab.tests.support.tiny import METHODS, tiny_data, tiny_recipe
from safetensors.torch import load_file, save_file

from binaryrelax import Binary, TernaryThreshold
from binaryrelax_lab.engine import (
    FINAL_NAME,
    HISTOGRAMS_NAME,
    RESULT_NAME,
    Job,
    Listener,
    Machine,
    digest_of,
    inspect_layers,
    read_json,
    train,
    write_atomically,
    write_json,
)
from binaryrelax_lab.engine.environment import describe_sources
from binaryrelax_lab.engine.evaluation import Evaluation
from binaryrelax_lab.engine.trainer import Trainer
from binaryrelax_lab.models import build_network

QUANTIZED = ["bwn", "binary", "twn", "ternary"]
EPOCH_KEYS = ["epoch", "phase", "strength", "lr", "train_loss", "accuracy", "accuracy_projected"]
RESULT_KEYS = [
    "recipe",
    "seed",
    "environment",
    "initial_checkpoint",
    "seconds",
    "epochs",
    "summary",
    "weights",
]


def refuse_constant(name):
    raise AssertionError(f"{name} is not JSON")


@pytest.mark.parametrize("method", METHODS)
def test_tiny_run_overfits_32_images(method, tmp_path):
    recipe = replace(tiny_recipe(method, epochs=40), flip=False)
    result = train(Job(recipe, 0, tmp_path), tiny_data())
    assert result.epochs[-1].train_loss < 0.25
    assert result.last == 100


@pytest.mark.parametrize("method", ["float", "ternary"])
def test_same_seed_gives_the_same_bytes(method, tmp_path):
    recipe = tiny_recipe(method)
    for name, seed in (("first", 0), ("again", 0), ("other", 1)):
        train(Job(recipe, seed, tmp_path / name), tiny_data())
    digests = [digest_of(tmp_path / name / FINAL_NAME) for name in ("first", "again", "other")]
    assert digests[0] == digests[1] != digests[2]
    histograms = [(tmp_path / name / HISTOGRAMS_NAME).read_bytes() for name in ("first", "again")]
    assert histograms[0] == histograms[1]


def test_training_leaves_the_global_generator_alone(tmp_path):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    train(Job(tiny_recipe("float", epochs=1), 0, tmp_path), tiny_data())
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("method", METHODS)
def test_result_has_the_documented_content(method, tiny_runs):
    text = (tiny_runs / f"tiny-{method}" / RESULT_NAME).read_text()
    result = json.loads(text, parse_constant=refuse_constant)
    assert list(result) == RESULT_KEYS
    assert result["recipe"]["method"] == method
    assert [record["epoch"] for record in result["epochs"]] == [0, 1, 2, 3]
    assert all(list(record) == EPOCH_KEYS for record in result["epochs"])
    accuracies = [record["accuracy"] for record in result["epochs"]]
    assert result["summary"]["last"] == accuracies[-1]
    assert result["summary"]["best_phase_two"] == max(accuracies[3:])
    assert result["summary"]["mean_last_5"] == pytest.approx(sum(accuracies) / 4)
    assert result["environment"]["torch"] == torch.__version__
    assert result["environment"]["other_jobs"] == 0
    ago = datetime.now(UTC) - datetime.fromisoformat(result["environment"]["date"])
    assert timedelta(seconds=-1) <= ago < timedelta(hours=1)


def test_result_tells_whether_the_tree_was_as_committed(tmp_path, monkeypatch):
    """A copy without history is told; a checkout asks git; a file that git does not know: None."""
    monkeypatch.setenv("BINARYRELAX_COMMIT", "a" * 40)
    file = tmp_path / "tracked.py"
    assert describe_sources(file) == {"git_commit": "a" * 40, "tree_clean": True}
    monkeypatch.setenv("BINARYRELAX_COMMIT", "a" * 40 + "-dirty")
    assert describe_sources(file) == {"git_commit": "a" * 40, "tree_clean": False}
    monkeypatch.delenv("BINARYRELAX_COMMIT")
    file.write_text("")
    assert describe_sources(file) == {"git_commit": None, "tree_clean": None}
    git = ["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=n@n"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"], ["tag", "a-tag"]):
        subprocess.run([*git, *command], check=True)
    assert describe_sources(file)["tree_clean"] is True
    assert len(describe_sources(file)["git_commit"]) == 40
    file.write_text("changed = True")
    assert describe_sources(file)["tree_clean"] is False


def test_phases_and_strengths_are_recorded(tiny_runs):
    def column(method, key):
        records = read_json(tiny_runs / f"tiny-{method}" / RESULT_NAME)["epochs"]
        return [record[key] for record in records]

    assert column("float", "phase") == column("float", "strength") == [None] * 4
    assert column("bwn", "strength") == ["inf"] * 4
    assert column("binary", "phase") == [1, 1, 1, 2]
    assert column("binary", "strength") == [4, 64, 1024, "inf"]
    assert column("binary", "accuracy_projected")[-1] == column("binary", "accuracy")[-1]


@pytest.mark.parametrize("method", QUANTIZED)
def test_quantized_runs_end_in_q_and_start_from_the_float_network(method, tiny_runs):
    result = read_json(tiny_runs / f"tiny-{method}" / RESULT_NAME)
    digest = digest_of(tiny_runs / "tiny-float" / FINAL_NAME)
    assert result["initial_checkpoint"] == {
        "name": f"tiny-float/{FINAL_NAME}",
        "digest": digest,
    }
    assert result["summary"]["in_q"] is True
    layers = result["weights"]["layers"]
    assert len(layers) == 4
    num_values = 2 if method in ("bwn", "binary") else 3
    assert all(layer["distance"] == 0 for layer in layers)
    assert all(layer["distinct_values"] <= num_values for layer in layers)
    assert all((layer["num_zeros"] > 0) == (num_values == 3) for layer in layers)


def test_sizes_count_scales_and_float_layers(tiny_runs):
    size = read_json(tiny_runs / "tiny-binary" / RESULT_NAME)["weights"]["size"]
    num_weights = 144 + 4608 + 18432 + 73728
    assert size["bits_per_weight"] == pytest.approx(1 + 4 * 32 / num_weights)
    assert size["layers_bytes_float"] == 4 * num_weights
    others = 98_682 - num_weights + 2 * (16 + 32 + 64 + 128)  # with running statistics
    assert size["network_bytes"] == pytest.approx(num_weights / 8 + 16 + 4 * others)


def test_float_run_is_not_said_to_be_in_q(tiny_runs):
    result = read_json(tiny_runs / "tiny-float" / RESULT_NAME)
    assert result["summary"]["in_q"] is None
    assert result["weights"]["size"]["bits_per_weight"] == 32


@pytest.mark.parametrize(
    ("method", "quantizer"), [("binary", Binary()), ("ternary", TernaryThreshold(0.7))]
)
def test_a_tampered_weight_is_noticed(method, quantizer, tiny_runs, tmp_path):
    name = "block2.conv.weight"
    tensors = load_file(tiny_runs / f"tiny-{method}" / FINAL_NAME)
    tensors[name].view(-1)[7] *= 1.0001
    save_file(tensors, tmp_path / FINAL_NAME)
    (layer,) = inspect_layers(tmp_path / FINAL_NAME, {name: quantizer})
    assert layer.in_q is False
    assert layer.distance > 0


def test_histograms_slide_from_float_into_q(tiny_runs):
    content = read_json(tiny_runs / "tiny-binary" / HISTOGRAMS_NAME)
    assert content["layer"] == "block4.conv.weight"
    snapshots = content["snapshots"]
    assert [s["epoch"] for s in snapshots] == [None, 0, 1, 2, 3]
    distances = [s["distance"] for s in snapshots]
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] == 0
    centres = [content["first_centre"] + i * content["bin_width"] for i in range(61)]
    filled = [round(c) for c, n in zip(centres, snapshots[-1]["counts"], strict=True) if n]
    assert filled == [-1, 1]
    assert sum(snapshots[-1]["counts"]) == content["num_weights"]


def test_a_finished_run_is_recognised_by_recipe_seed_and_files(tiny_runs):
    recipe, folder = tiny_recipe("binary"), tiny_runs / "tiny-binary"
    initial = tiny_runs / "tiny-float" / FINAL_NAME
    assert Job(recipe, 0, folder, initial).is_finished()
    assert not Job(recipe, 1, folder, initial).is_finished()
    assert not Job(replace(recipe, lr=0.2), 0, folder, initial).is_finished()
    assert not Job(recipe, 0, folder, folder / FINAL_NAME).is_finished()
    assert not Job(recipe, 0, tiny_runs / "nothing", initial).is_finished()


@pytest.mark.parametrize("is_training", [True, False])
def test_evaluation_leaves_the_mode_of_the_network_as_it_was(is_training):
    model = build_network("small-conv", 1, 10).train(is_training)
    Evaluation(model, tiny_data(), Machine()).measured()
    assert {module.training for module in model.modules()} == {is_training}


def test_a_damaged_result_does_not_count_as_finished(tmp_path):
    recipe = tiny_recipe("float", epochs=1)
    train(Job(recipe, 0, tmp_path), tiny_data())
    assert Job(recipe, 0, tmp_path).is_finished()
    (tmp_path / RESULT_NAME).write_text("{")
    assert not Job(recipe, 0, tmp_path).is_finished()


def test_diverging_training_is_an_error_that_names_the_recipe(tmp_path):
    recipe = replace(tiny_recipe("float"), lr=1e30)
    with pytest.raises(ValueError, match=r"tiny-float.*diverged"):
        train(Job(recipe, 0, tmp_path), tiny_data())
    assert not (tmp_path / RESULT_NAME).exists()


class Interrupting(Listener):
    """Stops the run after an epoch, as Ctrl-C would."""

    def epoch_finished(self, record):
        raise KeyboardInterrupt


def test_an_interrupted_run_leaves_nothing_that_looks_finished(tmp_path):
    recipe = tiny_recipe("binary")
    train(Job(recipe, 0, tmp_path), tiny_data())
    with pytest.raises(KeyboardInterrupt):
        train(Job(recipe, 0, tmp_path), tiny_data(), listener=Interrupting())
    assert not Job(recipe, 0, tmp_path).is_finished()


def test_a_failed_write_keeps_the_old_file_and_no_rubbish(tmp_path):
    path = tmp_path / "file"
    write_atomically(path, b"old")
    with pytest.raises(TypeError):
        write_atomically(path, "not bytes")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_only_training_is_gone_on_with_by_resuming(tmp_path):
    with pytest.raises(OSError, match="cannot be written") as caught:
        write_json(tmp_path / "none" / "file", {})
    assert "--resume" not in str(caught.value)


def test_networks_built_side_by_side_depend_on_their_own_seed_only():
    """Seeds of a campaign with several jobs: the threads do not draw each other's numbers."""

    def first_weights(seed):
        trainer = Trainer(tiny_recipe("float"), tiny_data(), seed=seed)
        return torch.cat([p.detach().flatten() for p in trainer.model.parameters()])

    alone = [first_weights(seed) for seed in range(8)]
    with ThreadPoolExecutor(8) as pool:
        beside = list(pool.map(first_weights, range(8)))
    assert all(torch.equal(a, b) for a, b in zip(alone, beside, strict=True))
