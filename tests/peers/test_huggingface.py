"""Networks of Hugging Face's transformers are the same packed; `make test-peers` runs this."""

import pytest

from binaryrelax import Binary, TernaryThreshold
from tests.peers.comparison import AGREES, compare
from tests.peers.ties import tied_names
from tests.peers.transformers_networks import networks

pytestmark = pytest.mark.peers
QUANTIZERS = (TernaryThreshold(), Binary())
NETWORKS = {network.name: network for network in networks()}
WITHOUT_META = {"Llama", "Llama, tied", "BERT", "CLIP"}  # they do not save all of their buffers
LAST_LAYERS = {  # what is one with the last layer's weight
    "Llama, tied": {"model.embed_tokens.weight", "lm_head.weight"},
    "GPT-2": {"transformer.wte.weight", "lm_head.weight"},
    "BERT": {"bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"},
    "T5": {
        "shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight",
        "lm_head.weight",
    },
}  # fmt: skip


@pytest.fixture(scope="module", params=NETWORKS)
def network(request):
    return NETWORKS[request.param]


@pytest.fixture(scope="module", params=QUANTIZERS, ids=repr)
def row(request, network, tmp_path_factory):
    return compare(network, request.param, tmp_path_factory.mktemp("zoo"))


def test_network_agrees(row):
    assert row["status"] == AGREES


def test_torch_computes_the_same_bits_from_packed_weights(row):
    for precision in ("float32", "bfloat16"):
        assert row["precisions"][precision]["engines"]["torch"]["same_bits"], precision


def test_nothing_is_refused_and_the_linear_layers_are_packed(row):
    assert row["refusals"] == row["keep_float"] == []
    assert row["packed_weights"] > (0.05 if row["name"] == "GPT-2" else 0.8) * row["weights"]
    assert row["certified"] and row["file_bytes"] < row["float_bytes"]


def test_loaded_networks_are_equal(row):
    loads = dict(row["loads"])
    meta = loads.pop("meta")
    assert loads.keys() == {"fresh", "empty weights", "bfloat16", "bfloat16 file"}
    assert set(loads.values()) == {"equal"}
    if row["name"] in WITHOUT_META:
        assert meta.startswith("refused: ") and "on the meta device" in meta
    else:
        assert meta == "equal"


def test_tying_weights_again_changes_nothing(row):
    if row["name"] == "BERT":  # transformers looks for its tied weights among the parameters
        assert row["tie_weights"].startswith("refused: ")
    else:
        assert row["tie_weights"] == "equal"


def test_language_models_generate_the_same_tokens(row, network):
    assert ("same_tokens" in row) == (network.num_tokens > 0)
    assert row.get("same_tokens", True)


def test_layers_that_are_not_torchs_are_told_of(row):
    """GPT-2 multiplies with transformers' Conv1D, which is no layer of torch, and stays float."""
    told = " ".join(row["warnings"])
    assert ("transformer.h.0.attn.c_attn.weight" in told) == (row["name"] == "GPT-2")
    assert ("vit.embeddings.position_embeddings" in told) == (row["name"] == "ViT")


def test_networks_tie_what_the_comparison_looks_at(network):
    found = [set(names) for names in tied_names(network.built(seed=0))]
    assert (LAST_LAYERS.get(network.name) in found) == (network.name in LAST_LAYERS)
