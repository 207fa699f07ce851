"""From trained models to packed ones: all layers or none, under every name that they have."""

import warnings

import pytest
import torch
from torch import nn

from binaryrelax import (
    Binary,
    BinaryRelax,
    GeometricGrowth,
    PerChannel,
    Ternary,
    Uniform,
    certify,
    load_packed,
    pack,
    save_packed,
    select_weights,
)
from binaryrelax.packed import (
    PackedConv1d,
    PackedConv2d,
    PackedConv3d,
    PackedConvTranspose1d,
    PackedConvTranspose2d,
    PackedConvTranspose3d,
    PackedLayer,
    PackedLinear,
    engines,
)
from tests.optim.sharded import shard_network
from tests.optim.toy import (
    IMAGES as TRAINING_IMAGES,
    loss_of,
    sgd,
    small_network as network_to_train,
    train,
    wrapped,
)
from tests.packed.cases import (
    IMAGES,
    QUANTIZERS,
    Language,
    Tied,
    Twice,
    inputs,
    pack_refused,
    packed_copy,
    put_in_q,
    same_tensor,
    seeded,
    small_network,
)
from tests.support.ranks import run_on_ranks


@pytest.fixture(autouse=True)
def by_torch():
    with engines.torch_only():
        yield


def test_the_model_itself_is_packed_and_returned_in_evaluation_mode():
    model = seeded(small_network).train()
    weights = put_in_q(model, Ternary(), keep_float=("7",))
    assert pack(model, weights) is model
    assert not any(module.training for module in model.modules())
    assert [type(m) for m in model if isinstance(m, PackedLayer)] == [PackedConv2d] * 2
    assert type(model[7]) is nn.Linear


def test_each_kind_of_layer_has_its_packed_one():
    kinds = {
        nn.Linear(4, 4): PackedLinear, nn.Conv1d(2, 2, 2): PackedConv1d,
        nn.Conv2d(2, 2, 2): PackedConv2d, nn.Conv3d(2, 2, 2): PackedConv3d,
        nn.ConvTranspose1d(2, 2, 2): PackedConvTranspose1d,
        nn.ConvTranspose2d(2, 2, 2): PackedConvTranspose2d,
        nn.ConvTranspose3d(2, 2, 2): PackedConvTranspose3d,
    }  # fmt: skip
    model = nn.ModuleList(kinds)
    pack(model, put_in_q(model, Binary()))
    assert [type(m) for m in model] == list(kinds.values())


def test_weights_of_different_sets_pack_side_by_side_or_one_after_the_other():
    plain, model = seeded(small_network), seeded(small_network)
    for network in (plain, model):
        parts = put_in_q(network, Ternary(), ("7",)), put_in_q(network, Uniform(bits=3), ("0", "3"))
    assert pack(
        plain,
        {**put_in_q(plain, Ternary(), ("7",)), **put_in_q(plain, Uniform(bits=3), ("0", "3"))},
    )
    for part in parts:
        pack(model, part)
    assert torch.equal(model(IMAGES), plain(IMAGES))
    assert [len(m.format.codebook) for m in model if isinstance(m, PackedLayer)] == [3, 3, 7]


def test_weights_before_phase_two_are_refused_and_the_projected_ones_taken():
    model = network_to_train()
    optimizer = wrapped(model, quantizer=Ternary(granularity=PerChannel()))
    train(model, optimizer, 10)
    assert "train to the end of Phase II" in pack_refused(model, optimizer.quantizers)
    with optimizer.projected():
        expected = {w: w.detach().clone() for w in optimizer.quantizers}
        packed = pack(model, optimizer.quantizers)
        assert torch.equal(packed[0].weight, expected[next(iter(expected))])


@pytest.mark.parametrize("quantizer", [Binary(), Ternary(), Uniform(bits=4), Uniform(bits=8)])
def test_a_network_trained_through_phase_two_packs_to_the_same_answers(quantizer):
    model = network_to_train()
    weights = select_weights(model, quantizer, keep_float=("6",))
    schedule = GeometricGrowth(initial=1.0, growth=1.5, every=2, harden_at=8)
    optimizer = BinaryRelax(sgd(model), weights, schedule)
    train(model, optimizer, 12)
    assert optimizer.phase == 2
    trained = {name: p.detach().clone() for name, p in model.named_parameters()}
    expected = model.eval()(TRAINING_IMAGES)
    packed = pack(model, weights)
    assert torch.equal(packed(TRAINING_IMAGES), expected)
    assert same_tensor(packed[0].weight, trained["0.weight"])
    assert same_tensor(packed[3].weight, trained["3.weight"])
    assert torch.isfinite(loss_of(packed))


@pytest.mark.parametrize("make", [Tied, Twice])
def test_tied_layers_stay_tied(make):
    plain, packed = packed_copy(make, Ternary())
    assert torch.equal(packed(inputs(3, 6)), plain(inputs(3, 6)))
    assert not any(isinstance(m, nn.Linear) for m in packed.modules())
    layers = [m for m in packed.modules() if isinstance(m, PackedLayer)]
    assert len(layers) == (2 if make is Tied else 1)
    assert len({layer.codes.data_ptr() for layer in layers}) == 1


def test_a_module_under_several_names_is_replaced_under_all():
    _, packed = packed_copy(Twice, Binary())
    assert packed.first is packed.again is packed.inner[1]
    _, packed = packed_copy(lambda: nn.Sequential(*[nn.Linear(4, 4)] * 3), Binary())
    assert packed[0] is packed[1] is packed[2] and isinstance(packed[2], PackedLinear)


@pytest.mark.parametrize("quantizer", QUANTIZERS, ids=repr)
def test_a_tied_embedding_reads_the_codes_of_its_head(quantizer):
    plain, packed = packed_copy(Language, quantizer)
    assert packed.embedding.codes is packed.decoder.codes
    assert packed.embedding.scale is packed.decoder.scale
    tokens = torch.tensor([[0, 10, 3], [7, 7, 1]])
    assert torch.equal(packed(tokens), plain(tokens))
    assert torch.equal(packed.embedding(tokens.int()), plain.embedding(tokens))
    assert torch.equal(packed.bfloat16()(tokens), plain.bfloat16()(tokens))
    assert packed.embedding(torch.zeros(0, 3, dtype=torch.long)).shape == (0, 3, 6)
    for wrong in (-1, 11):
        with pytest.raises(IndexError):
            packed.embedding(torch.tensor([wrong]))


def test_a_tied_embedding_costs_nothing_more_in_the_file(tmp_path):
    """Untied without a word, the file of a language model was larger than its float network."""

    class Large(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.head = nn.Embedding(500, 64), nn.Linear(64, 500, bias=False)
            self.head.weight = self.embedding.weight

    model = Large()
    float_bytes = 4 * model.head.weight.numel()
    save_packed(pack(model, put_in_q(model, Ternary())), tmp_path / "file")
    certificate = certify(tmp_path / "file")
    assert certificate.ok and certificate.float32_bytes == float_bytes
    assert certificate.file_bytes < float_bytes / 10
    loaded = load_packed(tmp_path / "file", Large())
    assert loaded.embedding.codes is loaded.head.codes


def test_an_embedding_alone_packs_as_well():
    model = nn.Sequential(nn.Embedding(7, 5, padding_idx=2))
    with torch.no_grad():
        model[0].weight.copy_(Ternary().project(model[0].weight))
    expected = model(torch.arange(7))
    assert torch.equal(pack(model, {model[0].weight: Ternary()})(torch.arange(7)), expected)


@pytest.mark.parametrize(
    "wrap", [nn.DataParallel, torch.compile, lambda m: nn.DataParallel(torch.compile(m))]
)
def test_of_a_wrapped_model_the_inner_one_is_packed(wrap):
    model = seeded(small_network)
    weights = put_in_q(wrap(model), Ternary())
    assert pack(wrap(model), weights) is model
    assert isinstance(model[0], PackedConv2d)


def test_a_model_with_a_compiled_block_inside_packs():
    model = nn.Sequential(nn.Linear(6, 6), torch.compile(nn.Sequential(nn.Linear(6, 6))))
    pack(model, put_in_q(model, Binary()))
    assert isinstance(model[1]._orig_mod[0], PackedLinear)


def pack_wrapped_by_ddp():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = nn.parallel.DistributedDataParallel(seeded(small_network))
    packed = pack(model, put_in_q(model, Ternary()))
    return type(packed).__name__, packed(IMAGES).detach()


def test_of_a_model_in_distributed_data_parallel_the_inner_one_is_packed(tmp_path):
    ((kind, answers),) = run_on_ranks(pack_wrapped_by_ddp, 1, tmp_path)
    plain, _ = packed_copy(small_network, Ternary())
    assert kind == "Sequential" and torch.allclose(answers, plain(IMAGES), atol=1e-6)


def pack_sharded():
    model = shard_network(network_to_train())
    with pytest.raises(ValueError) as caught:
        pack(model, select_weights(model, Ternary()))
    return str(caught.value)


def test_a_sharded_model_is_refused(tmp_path):
    (said,) = run_on_ranks(pack_sharded, 1, tmp_path)
    assert said.startswith("pack: layer '0' is sharded; load its full state dict")


@pytest.mark.parametrize("norm_first", [False, True])
def test_transformers_pack_whole_with_the_output_projection_of_attention(norm_first):
    def make():
        return nn.TransformerEncoderLayer(
            8, 2, dim_feedforward=12, batch_first=True, norm_first=norm_first
        )

    quantizer = Ternary(granularity=PerChannel())
    plain, packed = packed_copy(make, quantizer, keep_float=("*.in_proj_weight",))
    assert isinstance(packed.self_attn.out_proj, PackedLinear)
    assert isinstance(packed.linear1, PackedLinear)
    for gradients in (True, False):  # without, torch takes a fast path that reads weights itself
        with torch.set_grad_enabled(gradients):
            assert torch.allclose(packed(inputs(2, 5, 8)), plain(inputs(2, 5, 8)), atol=1e-6)


class Named(nn.Conv2d):
    """A convolution like any other."""


def test_a_subclass_that_changes_nothing_is_packed():
    plain, packed = packed_copy(lambda: nn.Sequential(Named(2, 4, 3)), Binary())
    assert isinstance(packed[0], PackedConv2d) and torch.equal(packed(IMAGES), plain(IMAGES))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_models_in_half_precision_pack(dtype):
    plain, packed = packed_copy(lambda: small_network().to(dtype), Ternary())
    assert packed[0].format.dtype == dtype and packed[0].scale.dtype == torch.float32
    assert torch.equal(packed(IMAGES.to(dtype)), plain(IMAGES.to(dtype)))
