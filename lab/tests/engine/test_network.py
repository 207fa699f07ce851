import pytest
import torch
from lab.tests.support.errors import one_line
from lab.tests.support.tiny import tiny_data, tiny_recipe
from safetensors.torch import save_file

from binaryrelax_lab.engine import Job, Listener, train
from binaryrelax_lab.engine.network import load_network
from binaryrelax_lab.models import build_network


def refusal(path, tmp_path):
    """The words by which a run that should start from `path` is refused."""
    with pytest.raises(ValueError, match="tiny-binary") as caught:
        train(Job(tiny_recipe("binary"), 0, tmp_path / "run", path), tiny_data())
    assert not (tmp_path / "run").exists()
    return one_line(caught)


def test_a_missing_or_damaged_file_is_named(tmp_path):
    path = tmp_path / "start.safetensors"
    assert f"{path}, the network that tiny-binary starts from" in refusal(path, tmp_path)
    path.write_bytes(b"PK\x03\x04")
    assert f"{path}, the network that tiny-binary starts from" in refusal(path, tmp_path)


@pytest.mark.parametrize(
    ("name", "num_classes", "word"),
    [("small-conv", 7, "fc.weight"), ("resnet20", 10, "block1.conv.weight")],
)
def test_another_network_is_refused_in_few_words(name, num_classes, word, tmp_path):
    path = tmp_path / "start.safetensors"
    save_file(build_network(name, 1, num_classes).state_dict(), path)
    words = refusal(path, tmp_path)
    assert word in words
    assert len(words) < 400


@pytest.mark.parametrize(
    ("name", "save"),
    [("net.safetensors", save_file), ("net.pth", torch.save), ("net.pt", torch.save)],
)
def test_files_of_safetensors_and_of_torch_are_read(name, save, tmp_path):
    state = build_network("small-conv", 1, 10).state_dict()
    save(state, tmp_path / name)
    found = load_network(tmp_path / name, tiny_recipe("binary"))
    assert found.keys() == state.keys()
    assert all(torch.equal(found[key], state[key]) for key in state)


class Hostile:
    def __reduce__(self):
        return print, ("executed",)


@pytest.mark.parametrize(
    "content", [build_network("small-conv", 1, 10), {"model": {}}, [1], Hostile()]
)
def test_nothing_but_tensors_is_read_of_torchs_files(content, tmp_path, capsys):
    torch.save(content, tmp_path / "net.pth")
    words = refusal(tmp_path / "net.pth", tmp_path)
    assert "cannot be read" in words and len(words) < 400
    assert capsys.readouterr().out == ""


class Notes(Listener):
    def __init__(self):
        self.lines = []

    def note(self, line):
        self.lines.append(line)


@pytest.mark.parametrize(("method", "epochs"), [("binary", 1), ("binary", 4), ("bwn", 1)])
def test_a_run_without_phase_one_says_so(method, epochs, tmp_path):
    start, notes = tmp_path / "start.safetensors", Notes()
    save_file(build_network("small-conv", 1, 10).state_dict(), start)
    train(Job(tiny_recipe(method, epochs), 0, tmp_path / "run", start), tiny_data(), listener=notes)
    assert any("too short" in line for line in notes.lines) == (method == "binary" and epochs == 1)
