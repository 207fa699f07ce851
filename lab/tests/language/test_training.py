"""Training on text with the engine of the images: what a run leaves, and that it resumes."""

import re
from dataclasses import replace
from functools import partial
from importlib.util import find_spec

import pytest
import torch
from lab.tests.support.campaigns import Diary, carry_on
from lab.tests.support.command import evidence, kill, run, start, wait_until
from lab.tests.support.errors import one_line
from lab.tests.support.tiny import tiny_data, tiny_recipe
from lab.tests.support.tiny_language import (
    NUM_EPOCHS,
    PHASE_TWO_EPOCH,
    STEPS_PER_EPOCH,
    tiny_language_recipe,
    tiny_texts,
    train_tiny_language,
    written,
)
from safetensors.torch import load_file

from binaryrelax import PerGroup, Ternary, load_packed
from binaryrelax_lab.campaign import Campaign
from binaryrelax_lab.engine import (
    FINAL_NAME,
    RESULT_NAME,
    HoldsOtherRun,
    Job,
    Listener,
    Machine,
    RunOptions,
    RunStopped,
    UnfitStart,
    digest_of,
    job_with_ancestor,
    read_json,
    refuse_impossible,
    train,
    train_all,
)
from binaryrelax_lab.engine.network import new_network, take_over, tensors_of
from binaryrelax_lab.language import LanguageData, LanguageExtraMissing, build_llama, load_corpus
from binaryrelax_lab.packing import pack_run
from binaryrelax_lab.recipes import find_recipe
from binaryrelax_lab.results import VALIDATION, LanguageResult, result_from_json

pytestmark = pytest.mark.peers

NEEDS_TORCHAO = pytest.mark.skipif(find_spec("torchao") is None, reason="needs torchao")
METHODS = (
    *("float", "bitnet", "ste-binary", "linear-ternary", "relax-binary", "relax-ternary"),
    *(pytest.param(f"parq-{kind}", marks=NEEDS_TORCHAO) for kind in ("binary", "ternary")),
)
RESUMED = ("float", "relax-ternary", pytest.param("parq-ternary", marks=NEEDS_TORCHAO))
NUM_LAYERS = 7  # of the one block: four matrices of the attention, three of the MLP


@pytest.fixture(scope="module")
def whole_runs(tmp_path_factory):
    """Runs that nothing interrupts, made when they are asked for, by their method."""
    out = tmp_path_factory.mktemp("whole")

    def folder_of(method):
        folder = out / method
        if not folder.exists():
            train_tiny_language(folder, method)
        return folder

    return folder_of


def result_in(folder):
    return result_from_json(read_json(folder / RESULT_NAME))


def test_a_run_on_the_embedded_text_leaves_a_result_that_reads_back_equal(tmp_path):
    recipe = tiny_language_recipe("relax-ternary")
    corpus = load_corpus(None, vocabulary=256)
    made = train(Job(recipe, 0, tmp_path), LanguageData(corpus))
    assert isinstance(made, LanguageResult)
    assert result_in(tmp_path).to_json() == made.to_json()
    assert result_in(tmp_path).summary == made.summary
    assert [epoch.phase for epoch in made.epochs] == [1] * PHASE_TWO_EPOCH + [2]
    assert made.summary.in_q is True
    assert made.split["corpus"] == "austen"
    assert made.split["trained_on_tokens"] == NUM_EPOCHS * STEPS_PER_EPOCH * 4 * 16
    assert made.score(VALIDATION).num_tokens == len(corpus.validation.tokens) - 1
    assert made.loss < made.epochs[0].loss
    assert [sample.prompt for sample in made.summary.samples] and made.summary.samples[0].text


@pytest.mark.parametrize("method", METHODS)
def test_every_method_ends_in_q_and_has_learned_something(method, whole_runs):
    result = result_in(whole_runs(method))
    is_float = method == "float"
    num_levels = 2 if method.endswith("binary") else 3
    layers = result.weights.layers
    assert len(layers) == NUM_LAYERS
    assert result.summary.in_q is (None if is_float else True)
    assert is_float or all(layer.distinct_values <= num_levels for layer in layers)
    assert result.epochs[-1].loss < result.epochs[0].loss
    last = result.epochs[-1]
    assert last.loss_projected == (None if is_float else last.loss)


def test_same_seed_gives_the_same_bits_and_another_seed_others(whole_runs, tmp_path):
    train_tiny_language(tmp_path / "again", "relax-ternary")
    train_tiny_language(tmp_path / "other", "relax-ternary", seed=1)
    whole = evidence(whole_runs("relax-ternary"))
    assert evidence(tmp_path / "again") == whole
    assert evidence(tmp_path / "other")[0] != whole[0]


@pytest.mark.parametrize("method", RESUMED)
@pytest.mark.parametrize("step", [1, 4, PHASE_TWO_EPOCH * STEPS_PER_EPOCH + 1])
def test_a_stopped_run_ends_with_the_same_bits_in_both_phases(method, step, whole_runs, tmp_path):
    with pytest.raises(RunStopped):
        train_tiny_language(tmp_path, method, stop_after=step)
    train_tiny_language(tmp_path, method)
    assert evidence(tmp_path) == evidence(whole_runs(method))


def test_killed_in_both_phases_a_run_ends_with_the_same_bits(whole_runs, tmp_path):
    for epoch in (1, PHASE_TWO_EPOCH):
        process = start(tmp_path, module="lab.tests.support.tiny_language")
        name = f"step-{epoch * STEPS_PER_EPOCH:09d}.ckpt"
        assert wait_until((tmp_path / "checkpoints" / name).exists, process)
        kill(process)
    assert not (tmp_path / RESULT_NAME).exists()
    train_tiny_language(tmp_path, "relax-ternary")
    assert evidence(tmp_path) == evidence(whole_runs("relax-ternary"))


def test_a_run_goes_on_with_no_other_text(tmp_path):
    with pytest.raises(RunStopped):
        train_tiny_language(tmp_path, "float", stop_after=2)
    with pytest.raises(ValueError, match="half-done run on other data") as caught:
        train_tiny_language(tmp_path, "float", data=tiny_texts(start=9000))
    one_line(caught)


def test_a_conversion_starts_from_the_float_network(whole_runs, tmp_path):
    initial = whole_runs("float") / FINAL_NAME
    result = train_tiny_language(tmp_path, "relax-ternary-from-float", initial=initial)
    assert result.start.name == f"float/{FINAL_NAME}"
    assert result.summary.in_q is True
    scratch = result_in(whole_runs("relax-ternary"))
    assert result.epochs[0].train_loss < scratch.epochs[0].train_loss


def test_a_conversion_from_a_network_of_other_tokens_is_refused(tmp_path):
    start = {"starts_from": "lm-base-float"}
    recipe = find_recipe("lm-small-relax-ternary-from-float").with_settings(start)
    jobs = job_with_ancestor(recipe, seed=0, out=tmp_path, initial=None)
    with pytest.raises(UnfitStart, match="lm-base-float trains llama-base with") as caught:
        refuse_impossible(jobs)
    one_line(caught)


def test_the_float_network_has_the_tokens_that_its_conversion_asks_for(tmp_path):
    recipe = find_recipe("lm-small-relax-ternary-from-float").with_settings({"vocabulary": "256"})
    jobs = job_with_ancestor(recipe, seed=0, out=tmp_path, initial=None)
    refuse_impossible(jobs)
    assert [job.recipe.vocabulary for job in jobs] == [256, 256]


def test_the_tied_embedding_is_stored_once_and_loaded_twice(whole_runs):
    stored = load_file(whole_runs("float") / FINAL_NAME)
    assert "model.embed_tokens.weight" in stored
    assert "lm_head.weight" not in stored
    recipe = tiny_language_recipe("float")
    model = new_network(tiny_texts().task_for(recipe), seed=1)
    take_over(model, stored, recipe)
    assert model.lm_head.weight is model.model.embed_tokens.weight
    assert torch.equal(model.lm_head.weight, stored["model.embed_tokens.weight"])
    assert tensors_of(model).keys() == stored.keys()


def test_a_language_model_is_packed_and_predicts_the_same(whole_runs, tmp_path):
    file, folder = tmp_path / "packed.safetensors", whole_runs("relax-ternary")
    packed = pack_run(folder, file, fold_batchnorm=False)
    assert packed.certificate.ok and len(packed.certificate.layers) == NUM_LAYERS
    settings = result_in(folder).recipe.settings
    trained, again = (
        build_llama("llama-tiny", settings["vocabulary"], settings["context"]) for _ in range(2)
    )
    take_over(trained, load_file(folder / FINAL_NAME), tiny_language_recipe("relax-ternary"))
    load_packed(file, again)
    tokens = torch.arange(16)[None]
    close = partial(torch.testing.assert_close, rtol=1e-4, atol=1e-5)
    close(again(tokens).logits, trained(tokens).logits)


def test_cells_of_another_text_are_not_counted_as_done(tmp_path):
    recipes = (tiny_language_recipe("float"),)
    campaign = Campaign(recipes=recipes, out=tmp_path)
    carry_on(campaign, data=tiny_texts())
    with pytest.raises(HoldsOtherRun, match=r"float.* on other data") as caught:
        carry_on(campaign, data=tiny_texts(start=500))
    one_line(caught)
    [job] = campaign.jobs()
    tools = {"machine": Machine(), "listener": Listener(), "options": RunOptions(resume=True)}
    with pytest.raises(HoldsOtherRun, match=r"float.* on other data"):
        train_all([job], tiny_texts(start=500), **tools)


def test_a_text_shorter_than_a_window_is_refused():
    data = tiny_texts()
    recipe = replace(tiny_language_recipe("float"), context=2000)
    with pytest.raises(ValueError, match="the validation text has 1000 tokens, fewer than"):
        data.task_for(recipe)


def test_layers_that_cannot_be_grouped_are_refused_before_anything_is_trained(tmp_path):
    recipe = replace(
        tiny_language_recipe("relax-ternary"), quantizer=Ternary(granularity=PerGroup(100))
    )
    job = Job(recipe, 0, tmp_path / "run")
    tools = {"machine": Machine(), "listener": Listener(), "options": RunOptions()}
    with pytest.raises(ValueError, match=r"q_proj.*100") as caught:
        train_all([job], tiny_texts(), **tools)
    one_line(caught)
    assert not job.folder.exists()


def test_attention_is_causal_without_a_mask():
    """What follows does not matter, and windows are never padded."""
    llama = build_llama("llama-tiny", 256, 16).eval()
    tokens = torch.randint(256, (2, 16))
    later = tokens.clone()
    later[:, 10:] = 0
    torch.testing.assert_close(llama(later).logits[:, :10], llama(tokens).logits[:, :10])
    llama.set_attn_implementation("sdpa")
    usual = llama(tokens).logits
    llama.set_attn_implementation("causal_sdpa")
    torch.testing.assert_close(llama(tokens).logits, usual)


def test_texts_are_for_language_recipes_and_images_for_the_others(tmp_path):
    for recipe, data, words in (
        (tiny_recipe("float"), tiny_texts(), "is trained on images, not on text"),
        (tiny_language_recipe("float"), tiny_data(), "is trained on text, not on images"),
    ):
        with pytest.raises(ValueError, match=words) as caught:
            train(Job(recipe, 0, tmp_path), data)
        one_line(caught)


def test_a_campaign_trains_what_was_asked_for_and_its_ancestor(tmp_path):
    methods = ("float", "ste-ternary", "relax-ternary", "relax-ternary-from-float")
    table = tuple(tiny_language_recipe(method) for method in methods)
    plan, diary = Campaign(recipes=table, out=tmp_path, only=("*-from-float*",)), Diary()
    outcome = carry_on(plan, diary, data=tiny_texts())
    assert [job.recipe for job in outcome.finished] == [table[0], table[3]]
    assert diary.events[1] == ("finished", "float 0")
    files = sorted(tmp_path.glob("results/text/*/seed0.json"))
    assert [file.parent.name for file in files] == sorted([table[0].name, table[3].name])
    kept = result_from_json(read_json(plan.result_file(plan.jobs()[1])))
    assert kept.start.digest == digest_of(plan.jobs()[0].folder / FINAL_NAME)


def test_the_command_trains_a_small_network_on_a_folder_of_texts(tmp_path):
    changes = {"vocabulary": 256, "context": 32, "batch_size": 4, "steps_per_epoch": 2}
    out, texts = tmp_path / "run", tmp_path / "texts"
    texts.mkdir()
    status, said, errors = run(
        *("train", "lm-small-relax-ternary", "--epochs", "2", "--data", written(texts)),
        *(part for key, value in changes.items() for part in ("--set", f"{key}={value}")),
        *("--out", out),
    )
    assert (status, errors) == (0, "")
    assert re.search(r"epoch 1/2  phase I  λ [\d.]+  .*  perplexity [\d.]+  [\d,]+ tokens/s", said)
    assert re.search(r"epoch 2/2  phase II  λ ∞", said)
    assert re.search(r"validation loss [\d.]+ \(perplexity .* counts of pairs .*weights in Q", said)
    result = result_in(out)
    assert result.name.base == "lm-small-relax-ternary"
    assert (result.summary.in_q, result.split["corpus"]) == (True, "texts")


@NEEDS_TORCHAO
def test_parq_has_no_strength_before_phase_two(whole_runs):
    records = read_json(whole_runs("parq-ternary") / RESULT_NAME)["epochs"]
    assert [record["phase"] for record in records] == [1] * PHASE_TWO_EPOCH + [2]
    assert [record["strength"] for record in records] == [None] * PHASE_TWO_EPOCH + ["inf"]
    assert all(record["loss_projected"] != record["loss"] for record in records[:-1])


@pytest.mark.skipif(find_spec("torchao") is not None, reason="torchao is there")
def test_parq_without_torchao_says_how_to_get_it_before_anything_is_trained(tmp_path):
    table = tuple(tiny_language_recipe(method) for method in ("float", "parq-binary"))
    diary = Diary()
    with pytest.raises(LanguageExtraMissing, match=r"pip install --no-deps torchao==") as caught:
        carry_on(Campaign(recipes=table, out=tmp_path), diary, data=tiny_texts())
    one_line(caught)
    assert diary.events == []
