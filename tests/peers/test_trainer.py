"""BinaryRelax in transformers' Trainer: what it logs, where it ends, what it refuses."""

import json
import math
import subprocess
import sys
from functools import partial

import pytest
import torch

from binaryrelax import (
    Binary,
    BinaryRelax,
    GeometricGrowth,
    Hard,
    LinearMix,
    PerGroup,
    Ternary,
    TernaryThreshold,
    Uniform,
    certify,
    pack,
    save_packed,
    select_weights,
)
from binaryrelax.integrations.huggingface import (
    RelaxCallback,
    chosen_weights,
    relaxed_optimizer,
)
from tests.peers.chosen_layers import builders
from tests.peers.tiny_llama import (
    DATA,
    STEPS,
    distinct_values,
    relaxed,
    same_weights,
    tiny_llama,
    trainer_of,
)

pytestmark = [
    pytest.mark.peers,
    pytest.mark.filterwarnings("ignore:`gradient_checkpointing` is deprecated:FutureWarning"),
]
TERNARY = relaxed_optimizer(quantizer=Ternary())


def logged(trainer, key):
    return [record[key] for record in trainer.state.log_history if key in record]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """One training in one piece, with evaluations and checkpoints in both phases."""
    trainer = trainer_of(
        tiny_llama(),
        tmp_path_factory.mktemp("whole"),
        eval_strategy="steps",
        eval_steps=5,
        save_strategy="steps",
        save_steps=6,
    )
    trainer.train()
    return trainer


def test_every_layer_ends_with_three_values_and_packs(whole, tmp_path):
    values = distinct_values(whole)
    assert len(values) == 7 and set(values.values()) == {3}
    assert relaxed(whole).phase == 2 and logged(whole, "relax/in_q") == [1.0]
    model = tiny_llama()
    model.load_state_dict(whole.model.state_dict())
    save_packed(pack(model, chosen_weights(model, Ternary())), tmp_path / "llama.safetensors")
    assert certify(tmp_path / "llama.safetensors").ok


def test_the_schedule_is_resolved_over_the_steps_of_the_training(whole):
    assert relaxed(whole).schedule == GeometricGrowth.over(STEPS)
    strengths = logged(whole, "relax/strength")
    assert strengths == [GeometricGrowth.over(STEPS)(step - 1) for step in range(4, STEPS + 1, 4)]
    assert strengths[-2] == pytest.approx(150) and strengths[-1] == math.inf
    assert logged(whole, "relax/phase") == [1, 1, 1, 1, 2]


def test_distance_and_flips_are_logged(whole):
    distances = logged(whole, "relax/distance")
    assert distances == sorted(distances, reverse=True) and distances[-1] == 0 < distances[-2]
    flips = logged(whole, "relax/level_flips")
    assert len(flips) == len(distances) - 1 and all(0 <= share < 1 for share in flips)


def test_evaluation_in_phase_one_reports_the_projected_model_too(whole):
    assert len(logged(whole, "eval_loss")) == 4
    steps = [r["step"] for r in whole.state.log_history if "eval_projected_loss" in r]
    assert steps == [5, 10, 15]
    relaxed_loss, projected_loss = logged(whole, "eval_loss"), logged(whole, "eval_projected_loss")
    assert relaxed_loss[0] != projected_loss[0]


def test_the_projected_evaluation_is_that_of_the_projected_weights(tmp_path):
    trainer = trainer_of(tiny_llama(), tmp_path, eval_strategy="steps", eval_steps=5)
    found = {}

    class Compare(RelaxCallback):
        def on_evaluate(self, args, state, control, **given):
            super().on_evaluate(args, state, control, **given)
            if not found:
                found.update(given["metrics"])
                before = [p.clone() for p in trainer.model.parameters()]
                with relaxed(trainer).projected():
                    found["by_hand"] = trainer.evaluate(metric_key_prefix="again")["again_loss"]
                pairs = zip(before, trainer.model.parameters(), strict=True)
                assert all(torch.equal(a, b) for a, b in pairs)

    trainer.remove_callback(RelaxCallback)
    trainer.add_callback(Compare())
    trainer.train()
    assert found["eval_projected_loss"] == pytest.approx(found["by_hand"], rel=1e-6)


def test_the_projected_evaluation_has_the_users_metrics_and_can_be_turned_off(tmp_path):
    more = {"compute_metrics": lambda prediction: {"rows": len(prediction.label_ids)}}
    settings = {"eval_strategy": "steps", "eval_steps": 10}
    trainer = trainer_of(tiny_llama(), tmp_path, more=more, **settings)
    trainer.train()
    assert logged(trainer, "eval_projected_rows") == [16]
    quiet = [RelaxCallback(evaluate_projected=False)]
    trainer = trainer_of(tiny_llama(), tmp_path, callbacks=quiet, **settings)
    trainer.train()
    assert not logged(trainer, "eval_projected_loss") and len(logged(trainer, "eval_loss")) == 2


@pytest.mark.parametrize("step", [6, 18], ids=["in phase one", "in phase two"])
def test_a_resumed_training_ends_with_the_same_bits(whole, step, tmp_path):
    trainer = trainer_of(tiny_llama(), tmp_path)
    trainer.train(resume_from_checkpoint=f"{whole.args.output_dir}/checkpoint-{step}")
    assert same_weights(whole.model, trainer.model)
    assert relaxed(trainer).num_steps == STEPS


def test_resuming_with_other_steps_is_refused(whole, tmp_path):
    trainer = trainer_of(tiny_llama(), tmp_path, max_steps=30)
    with pytest.raises(ValueError, match=r"harden_at=16\).*harden_at=24\).*as many steps as"):
        trainer.train(resume_from_checkpoint=f"{whole.args.output_dir}/checkpoint-6")


def test_resuming_without_the_optimizer_is_refused(tmp_path):
    settings = {"save_strategy": "steps", "save_steps": 10, "save_only_model": True}
    trainer_of(tiny_llama(), tmp_path, **settings).train()
    trainer = trainer_of(tiny_llama(), tmp_path, **settings)
    with pytest.raises(ValueError, match=r"at step 20 and BinaryRelax at 0.*save_only_model=False"):
        trainer.train(resume_from_checkpoint=True)


def test_training_twice_is_refused(whole):
    with pytest.raises(ValueError, match=r"at step 0 and BinaryRelax at 20: make a new Trainer"):
        whole.train()


CONDITIONS = {
    "accumulation": {"gradient_accumulation_steps": 2, "per_device_train_batch_size": 4},
    "epochs": {"max_steps": -1, "num_train_epochs": 2, "gradient_accumulation_steps": 3},
    "clipping": {"max_grad_norm": 0.01},
    "autocast": {"bf16": True},
    "checkpointing": {"gradient_checkpointing": True},
    "compile": {"torch_compile": True, "torch_compile_backend": "aot_eager"},
    "sgd": {"optim": "sgd"},
    "best model": {
        "load_best_model_at_end": True, "eval_strategy": "steps", "eval_steps": 20,
        "save_strategy": "steps", "save_steps": 20,
    },
}  # fmt: skip


@pytest.mark.parametrize("condition", CONDITIONS)
def test_weights_end_in_q_under(condition, tmp_path):
    trainer = trainer_of(tiny_llama(), tmp_path, **CONDITIONS[condition])
    trainer.train()
    assert set(distinct_values(trainer).values()) == {3}
    assert logged(trainer, "relax/in_q") == [1.0]
    assert relaxed(trainer).num_steps == trainer.state.max_steps == trainer.state.global_step
    assert relaxed(trainer).schedule == GeometricGrowth.over(trainer.state.max_steps)


def test_a_tied_embedding_stays_float_and_tied(tmp_path):
    trainer = trainer_of(tiny_llama(tied=True), tmp_path)
    trainer.train()
    model = trainer.model
    assert model.lm_head.weight is model.model.embed_tokens.weight
    assert set(distinct_values(trainer).values()) == {3} and len(distinct_values(trainer)) == 7
    assert model.lm_head.weight.unique().numel() > 100


def test_a_tied_head_may_be_quantized_with_its_embedding(tmp_path):
    optimizer = relaxed_optimizer(quantizer=Ternary(), quantize_head=True)
    trainer = trainer_of(tiny_llama(tied=True), tmp_path, optimizer=optimizer)
    trainer.train()
    assert len(distinct_values(trainer)) == 8
    assert trainer.model.model.embed_tokens.weight.unique().numel() == 3


@pytest.mark.parametrize(
    ("plan", "schedule"),
    [
        (partial(GeometricGrowth.over, phase_one=0.5), GeometricGrowth.over(STEPS, phase_one=0.5)),
        (LinearMix.over, LinearMix(0, 16)),
        (Hard(), Hard()),
        (lambda steps: LinearMix(2, steps // 2), LinearMix(2, STEPS // 2)),
    ],
)
def test_other_schedules_are_stated_alike(plan, schedule, tmp_path):
    optimizer = relaxed_optimizer(quantizer=Ternary(), schedule=plan)
    trainer = trainer_of(tiny_llama(), tmp_path, optimizer=optimizer, callbacks=[RelaxCallback()])
    trainer.train()
    assert relaxed(trainer).schedule == schedule


def test_the_base_optimizer_is_that_of_the_training_arguments(tmp_path):
    settings = {
        "learning_rate": 3e-3, "weight_decay": 0.1, "adam_beta2": 0.95, "adam_epsilon": 1e-6,
        "lr_scheduler_type": "constant", "max_steps": 2,
    }  # fmt: skip
    trainer = trainer_of(tiny_llama(), tmp_path, **settings)
    trainer.train()
    decayed, others = relaxed(trainer).param_groups
    assert type(relaxed(trainer).base) is torch.optim.AdamW
    for group in (decayed, others):
        assert (group["lr"], group["betas"], group["eps"]) == (3e-3, (0.9, 0.95), 1e-6)
    assert (decayed["weight_decay"], others["weight_decay"]) == (0.1, 0.0)
    assert all(p.dim() > 1 for p in decayed["params"]) and len(others["params"]) == 3  # the norms


def test_another_base_is_made_by_a_factory(tmp_path):
    base = partial(torch.optim.SGD, lr=0.1, momentum=0.9)
    optimizer = relaxed_optimizer(quantizer=Ternary(), base=base, keep_float=("*.mlp",))
    trainer = trainer_of(tiny_llama(), tmp_path, optimizer=optimizer)
    trainer.train()
    assert type(relaxed(trainer).base) is torch.optim.SGD
    assert len(distinct_values(trainer)) == 4 and set(distinct_values(trainer).values()) == {3}


class ScheduleFree(torch.optim.SGD):
    """Like those that keep an average, which the Trainer has them exchange for evaluation."""

    def train(self):
        """Nothing is there to exchange."""

    eval = train


def test_a_base_that_exchanges_weights_is_refused(tmp_path):
    base = partial(ScheduleFree, lr=0.1)
    optimizer = relaxed_optimizer(quantizer=Ternary(), base=base)
    trainer = trainer_of(tiny_llama(), tmp_path, optimizer=optimizer)
    with pytest.raises(ValueError, match=r"ScheduleFree has an eval\(\) that exchanges"):
        trainer.train()


@pytest.mark.parametrize(
    "quantizer",
    [Binary(), TernaryThreshold(), Ternary(granularity=PerGroup(16)), Uniform(bits=3)],
    ids=repr,
)
def test_other_quantizers(quantizer, tmp_path):
    optimizer = relaxed_optimizer(quantizer=quantizer)
    trainer = trainer_of(tiny_llama(), tmp_path, optimizer=optimizer)
    trainer.train()
    assert logged(trainer, "relax/in_q") == [1.0]


def test_gpt2_trains_with_one_scale_per_layer(tmp_path):
    trainer = trainer_of(builders()["GPT-2"](), tmp_path)
    with pytest.warns(UserWarning, match="pack will refuse 'transformer.h.0.attn.c_attn'"):
        trainer.train()
    assert len(distinct_values(trainer)) == 8 and set(distinct_values(trainer).values()) == {3}


def test_several_evaluation_sets_keep_their_names(tmp_path):
    trainer = trainer_of(tiny_llama(), tmp_path, eval_strategy="steps", eval_steps=10)
    trainer.eval_dataset = {"first": DATA[:8], "second": DATA[8:24]}
    trainer.train()
    for name in ("first", "second"):
        assert len(logged(trainer, f"eval_{name}_projected_loss")) == 1
        assert len(logged(trainer, f"eval_{name}_loss")) == 2


def test_a_model_may_be_made_by_the_trainer(tmp_path):
    """As for a search of hyperparameters: the one that is trained is not the one at first."""
    trainer = trainer_of(None, tmp_path, more={"model_init": lambda: tiny_llama()})
    for _ in range(2):
        trainer.train()
        assert set(distinct_values(trainer).values()) == {3}


def test_an_optimizer_that_was_built_by_hand_is_looked_after_too(tmp_path):
    from transformers import Trainer

    from tests.peers.tiny_llama import arguments

    model = tiny_llama()
    base = torch.optim.AdamW(model.parameters(), lr=5e-3)
    weights = select_weights(model, Ternary(), keep_float=("lm_head",))
    optimizer = BinaryRelax(base, weights, GeometricGrowth.over(STEPS))
    trainer = Trainer(
        model,
        arguments(tmp_path),
        train_dataset=DATA,
        optimizers=(optimizer, None),
        callbacks=[RelaxCallback()],
    )
    trainer.train()
    assert logged(trainer, "relax/strength")[-1] == math.inf
    assert logged(trainer, "relax/in_q") == [1.0]


def test_a_model_that_is_not_in_q_at_the_end_is_told_of(tmp_path):
    settings = {"eval_strategy": "steps", "save_strategy": "steps", "eval_steps": 4}
    trainer = trainer_of(
        tiny_llama(), tmp_path, save_steps=4, load_best_model_at_end=True, greater_is_better=True,
        **settings,
    )  # fmt: skip
    with pytest.warns(UserWarning, match=r"ended with 7 of 7 weights outside of Q .*q_proj"):
        trainer.train()  # the loss was greatest, and the model thus "best", in Phase I
    assert logged(trainer, "relax/in_q") == [0.0]


def test_tensorboard_gets_what_is_logged(tmp_path, monkeypatch):
    event_accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator"
    )
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "board"))
    trainer_of(tiny_llama(), tmp_path, report_to="tensorboard").train()
    events = event_accumulator.EventAccumulator(str(tmp_path / "board")).Reload()
    strengths = [event.value for event in events.Scalars("train/relax/strength")]
    assert len(strengths) == 5 and strengths[0] < 3 and strengths[-1] == math.inf


def test_what_cannot_work_is_refused(tmp_path):
    def refused(match, model=None, **settings):
        trainer = trainer_of(model or tiny_llama(), tmp_path, **settings)
        with pytest.raises(ValueError, match=match):
            trainer.train()

    refused(r"add callbacks=\[RelaxCallback\(\)\]", callbacks=[])
    refused(r"q_proj.weight' is torch.bfloat16.*bf16=True", tiny_llama().bfloat16())
    refused("auto_find_batch_size changes the number of steps", auto_find_batch_size=True)
    trainer = trainer_of(tiny_llama(), tmp_path, optimizer=(torch.optim.SGD, {"lr": 0.1}))
    with pytest.raises(ValueError, match=r"optimizer is SGD: add optimizer_cls_and_kwargs="):
        trainer.train()


@pytest.mark.parametrize(
    ("flag", "reason"),
    [
        ("is_deepspeed_enabled", "DeepSpeed flattens the parameters.*train with DDP"),
        ("is_fsdp_enabled", "accelerate shards the model after.*train with DDP"),
    ],
)
def test_sharding_by_others_is_refused(flag, reason, tmp_path):
    """The flag is what the Trainer has set where it was launched so; here nothing is sharded."""
    trainer = trainer_of(tiny_llama(), tmp_path)
    setattr(trainer, flag, True)
    with pytest.raises(ValueError, match=reason):
        trainer.create_optimizer()


def test_outside_of_a_trainer_the_callback_says_where_it_belongs():
    factory, settings = TERNARY
    with pytest.raises(RuntimeError, match=r"for transformers' Trainer to call"):
        factory()(tiny_llama(), **settings)


def test_two_processes_end_with_the_same_bits(tmp_path):
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    script = ["-m", "tests.peers.on_ranks", str(tmp_path), "trainer"]
    done = subprocess.run(
        [sys.executable, *command, *script], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-3000:]
    first, second = (torch.load(tmp_path / f"{rank}.pt") for rank in range(2))
    assert first.keys() == second.keys() and len(first["projected"]) >= 1
    for name, tensor in first.items():
        assert torch.equal(tensor, second[name]), name
        if name.startswith("whole."):
            assert torch.equal(tensor, first[name.replace("whole", "resumed")]), name
    layers = [t for n, t in first.items() if n.startswith("whole.") and "_proj" in n]
    assert len(layers) == 7 and all(layer.unique().numel() == 3 for layer in layers)


def test_the_state_file_of_the_trainer_can_be_read(whole):
    folder = f"{whole.args.output_dir}/checkpoint-18"
    with open(f"{folder}/trainer_state.json") as file:
        history = json.load(file)["log_history"]
    assert any("relax/strength" in record for record in history)
