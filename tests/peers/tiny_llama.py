"""A Llama small enough for hundreds of steps a second, and a Trainer for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

from binaryrelax import BinaryRelax, Ternary
from binaryrelax.integrations.huggingface import RelaxCallback, relaxed_optimizer

STEPS, TOKENS = 20, 32
torch.manual_seed(0)
ROWS = torch.randint(TOKENS, (64, 16), generator=torch.Generator().manual_seed(0))
DATA = [{"input_ids": row, "labels": row} for row in ROWS]


def tiny_llama(tied: bool = False) -> Any:
    """One layer; the same random weights at every call."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=TOKENS, hidden_size=32, intermediate_size=64, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=2, tie_word_embeddings=tied,
    )  # fmt: skip
    return LlamaForCausalLM(config)


def arguments(folder: Path | str, **changed: Any) -> TrainingArguments:
    """Twenty steps, sixteen of them in Phase I."""
    plain = {
        "max_steps": STEPS, "learning_rate": 5e-3, "logging_steps": 4, "save_strategy": "no",
        "report_to": "none", "disable_tqdm": True, "use_cpu": True,
    }  # fmt: skip
    return TrainingArguments(str(folder), **{**plain, **changed})


def trainer_of(
    model: nn.Module,
    folder: Path | str,
    *,
    optimizer: Any = None,
    callbacks: Any = None,
    more: dict[str, Any] | None = None,
    **changed: Any,
) -> Trainer:
    """A Trainer with the integration; ``more`` goes to it, ``changed`` to its arguments."""
    return Trainer(
        model,
        arguments(folder, **changed),
        train_dataset=DATA,
        eval_dataset=DATA[:16],
        optimizer_cls_and_kwargs=optimizer or relaxed_optimizer(quantizer=Ternary()),
        callbacks=[RelaxCallback()] if callbacks is None else callbacks,
        **(more or {}),
    )


def relaxed(trainer: Trainer) -> BinaryRelax:
    """The optimizer of a Trainer that has trained; accelerate has wrapped it."""
    return trainer.optimizer.optimizer


def distinct_values(trainer: Trainer) -> dict[str, int]:
    """How many values each quantized weight takes."""
    optimizer = relaxed(trainer)
    return {name: weight.unique().numel() for weight, name in optimizer.names.items()}


def same_weights(one: nn.Module, other: nn.Module) -> bool:
    """Whether all parameters are the same bits."""
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)
