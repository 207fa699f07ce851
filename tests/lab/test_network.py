import pytest
from safetensors.torch import save_file

from binaryrelax.lab.engine import Job, train
from binaryrelax.lab.models import build_network
from tests.lab.errors import one_line
from tests.lab.tiny import tiny_data, tiny_recipe


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
    assert word in words and "--init" in words
    assert len(words) < 400
