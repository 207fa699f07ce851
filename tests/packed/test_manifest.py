import hashlib
import json

import pytest
import torch

from binaryrelax import Binary, PackedFileError, PerChannel, PerGroup, Ternary, Uniform
from binaryrelax.packed.manifest import VERSION, LayerEntry, Manifest, digest_of_tensors
from binaryrelax.packed.packed_weight import pack_weight
from tests.quantizers.cases import ALL_QUANTIZERS, random_weights

DIGEST = "0123456789abcdef" * 4
PROGRAM = {"mode": "fast", "operations": [{"op": "linear", "weight": "fc", "ü": [1, 0.5, None]}]}


def entry(quantizer=None, shape=(3, 4), kind="linear", layout="bits") -> LayerEntry:
    quantizer = quantizer or Ternary()
    form = pack_weight(quantizer.project(random_weights(*shape)), quantizer).format
    return LayerEntry(kind, form, layout, DIGEST)


def manifest(program=None, **layers: LayerEntry) -> Manifest:
    layers = layers or {"fc": entry(), "conv": entry(Binary(), (3, 2, 2, 2), "conv2d")}
    tensors, tied, folded = {"fc.bias": DIGEST}, {"again": "fc.bias"}, ("bn",)
    return Manifest(layers, tensors, tied, folded, {"who": "me ü"}, program)


def signed(content: dict) -> str:
    """A manifest with a digest that is right, as a forger would write it."""
    content = {k: v for k, v in content.items() if k != "digest"}
    text = json.dumps(content, separators=(",", ":"))
    return json.dumps({**content, "digest": hashlib.sha256(text.encode()).hexdigest()})


def refused(text: str) -> str:
    with pytest.raises(PackedFileError) as caught:
        Manifest.from_json(text)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400
    return str(caught.value)


@pytest.mark.parametrize("quantizer", ALL_QUANTIZERS, ids=repr)
def test_every_quantizer_comes_back_from_json(quantizer):
    for granularity in (PerChannel(), PerGroup(2)):
        written = manifest(
            fc=entry(type(quantizer)(**{**vars_of(quantizer), "granularity": granularity}))
        )
        assert Manifest.from_json(written.to_json()) == written
    written = manifest(fc=entry(quantizer))
    assert Manifest.from_json(written.to_json()) == written


def vars_of(quantizer) -> dict:
    return {name: getattr(quantizer, name) for name in quantizer.__dataclass_fields__}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_dtypes_and_layouts_come_back(dtype):
    form = pack_weight(Ternary().project(random_weights(2, 3, dtype=dtype)), Ternary()).format
    for layout in ("bits", "trits"):
        written = manifest(fc=LayerEntry("linear", form, layout, DIGEST))
        assert Manifest.from_json(written.to_json()).layers["fc"].format.dtype == dtype


def test_it_is_one_line_that_keeps_the_order_of_the_layers():
    text = manifest().to_json()
    assert "\n" not in text and text.isascii()
    layers = dict(reversed(manifest().layers.items()))
    for written in (manifest(), manifest(**layers)):
        assert list(Manifest.from_json(written.to_json()).layers) == list(written.layers)
    assert signed(json.loads(text)) != text and Manifest.from_json(signed(json.loads(text)))


@pytest.mark.parametrize("program", [None, PROGRAM], ids=["layers", "program"])
def test_every_changed_character_is_noticed(program):
    text = manifest(program).to_json()
    original = Manifest.from_json(text)
    for place in range(len(text)):
        for change in (1, 32):
            changed = text[:place] + chr(ord(text[place]) ^ change) + text[place + 1 :]
            try:
                assert Manifest.from_json(changed) == original
            except PackedFileError as error:
                assert "\n" not in str(error)


def test_newer_versions_ask_for_an_update_and_others_are_refused():
    content = json.loads(manifest().to_json())
    assert "update it" in refused(signed({**content, "version": VERSION + 1}))
    for version in (0, -1, 1.0, True, "1", None, [1]):
        assert "no version" in refused(signed({**content, "version": version}))
    assert "digest differs" in refused(json.dumps({**content, "about": {}}))


def test_a_program_comes_back_as_it_was():
    written = manifest(PROGRAM)
    assert Manifest.from_json(written.to_json()) == written
    assert Manifest.from_json(written.to_json()).program == PROGRAM


def test_the_version_is_the_oldest_that_knows_what_is_in_the_file():
    embedding = entry(shape=(5, 4), kind="embedding")
    written = manifest(), manifest(fc=embedding), manifest(PROGRAM), manifest(PROGRAM, fc=embedding)
    assert [json.loads(m.to_json())["version"] for m in written] == [1, 2, 3, 3]


@pytest.mark.parametrize("version", [1, 2])
def test_older_versions_have_no_program(version):
    content = json.loads(manifest(PROGRAM).to_json())
    assert "malformed" in refused(signed({**content, "version": version}))
    without = json.loads(manifest().to_json())
    assert Manifest.from_json(signed({**without, "version": version})) == manifest()
    assert "malformed" in refused(signed({**without, "version": 3}))


def test_a_program_that_cannot_be_said_in_json_is_not_written():
    with pytest.raises(ValueError):
        manifest({"value": float("nan")}).to_json()


@pytest.mark.parametrize(
    "text",
    ["", "nonsense", "[]", "3", "null", "{}", '{"version": 1}', '{"version": NaN}', '"x"',
     '{"version": 1, "digest": "0"}', "[" * 100_000, '{"a":' * 50_000, "\ud800", "{\ud800}",
     '{"version": ' + "9" * 5000 + "}", '{"version": 1, "x": 1e999}',
     '{"version": 1, "x": -Infinity}', '{"version": 1, "x": ' + "[" * 900 + "]" * 900 + "}"],
    ids=lambda text: text[:30].encode("ascii", "backslashreplace").decode(),
)  # fmt: skip
def test_what_is_no_manifest_is_refused(text):
    refused(text)


BAD_VALUES = (
    None,
    True,
    0,
    -1,
    1.5,
    2**70,
    "x",
    "",
    [],
    [1],
    {},
    {"a": 1},
    [[2, 3]],
    "bits",
    1e300,
)


@pytest.mark.parametrize("field", ["layers", "tensors", "tied", "folded", "about"])
@pytest.mark.parametrize("value", BAD_VALUES, ids=repr)
def test_forged_fields_are_refused_or_mean_what_they_say(field, value):
    content = json.loads(manifest(PROGRAM).to_json())
    fits = {"folded": [[]], "layers": [{}], "tensors": [{}], "tied": [{}], "about": [{}]}
    forged = signed({**content, field: value})
    if value in fits[field]:
        assert len(getattr(Manifest.from_json(forged), field)) == 0
    else:
        refused(forged)


@pytest.mark.parametrize("value", BAD_VALUES, ids=repr)
def test_a_program_is_an_object_whatever_it_holds(value):
    content = json.loads(manifest(PROGRAM).to_json())
    forged = signed({**content, "program": value})
    if isinstance(value, dict):
        assert Manifest.from_json(forged).program == value
    else:
        assert "malformed" in refused(forged)


@pytest.mark.parametrize("field", ["kind", "shape", "codebook", "granularity", "dtype", "layout",
                                   "digest"])  # fmt: skip
@pytest.mark.parametrize("value", BAD_VALUES, ids=repr)
def test_forged_layers_are_refused(field, value):
    content = json.loads(manifest(fc=entry()).to_json())
    content["layers"]["fc"][field] = value
    if (field, value) == ("layout", "bits"):
        assert Manifest.from_json(signed(content)) == manifest(fc=entry())
    else:
        refused(signed(content))
    del content["layers"]["fc"][field]
    refused(signed(content))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("shape", [3, 0]), ("shape", [3, -4]), ("shape", [3, 4.0]), ("shape", [12]),
        ("shape", [2**20, 2**21]), ("shape", [2**62, 4]), ("shape", [3, True]),
        ("shape", [1, 1, 1, 1, 1, 1]), ("shape", [3, 2, 2]),  # a linear layer has two dimensions
        ("codebook", [1, 0]), ("codebook", [0]), ("codebook", [0, 0]), ("codebook", [0, "1"]),
        ("codebook", [0, 1e39]), ("codebook", [-(2**70) * 2**70, 0]), ("codebook", [False, True]),
        ("codebook", list(range(2**15 + 1))), ("granularity", 3), ("granularity", 10**30),
        ("granularity", "group"), ("dtype", "float64"), ("layout", "trits "), ("kind", "conv4d"),
        ("digest", DIGEST.upper()), ("digest", DIGEST[1:]), ("digest", DIGEST + "\n"),
    ],
)  # fmt: skip
def test_forged_details_are_refused(field, value):
    content = json.loads(manifest(fc=entry()).to_json())
    content["layers"]["fc"][field] = value
    refused(signed(content))


def test_trits_are_for_ternary_codes_only():
    written = json.loads(manifest(fc=entry(Uniform(bits=3))).to_json())
    written["layers"]["fc"]["layout"] = "trits"
    assert "not ternary" in refused(signed(written))


def test_digests_cover_dtype_shape_and_every_bit():
    tensor = torch.tensor([[1.0, -0.0]])
    others = (
        tensor.t(), tensor.view(torch.int32), torch.tensor([[1.0, 0.0]]), tensor[0],
        tensor.double(), torch.cat([tensor, tensor]),
    )  # fmt: skip
    digests = {digest_of_tensors(t) for t in (tensor, *others)}
    assert len(digests) == 7
    assert digest_of_tensors(tensor, tensor) != digest_of_tensors(torch.cat([tensor, tensor]))
    by_hand = hashlib.sha256(b"torch.float32 (1, 2);" + tensor.numpy().tobytes()).hexdigest()
    assert digest_of_tensors(tensor) == by_hand


def test_digests_do_not_depend_on_strides_and_take_any_shape():
    tensor = torch.arange(6.0).reshape(2, 3)
    assert digest_of_tensors(tensor.t().contiguous().t()) == digest_of_tensors(tensor)
    for odd in (torch.tensor(1.0), torch.zeros(0, 3), torch.ones(2, dtype=torch.bool)):
        assert len(digest_of_tensors(odd)) == 64
