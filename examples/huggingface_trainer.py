"""Hugging Face's Trainer with ternary weights: train, cut off, resume, pack, generate.

A tiny Llama with random weights learns the text below, letter by letter. `relaxed_optimizer` gives
the Trainer its optimizer, and `RelaxCallback` logs λ and evaluates the projected model. Nothing of
the Trainer is subclassed. One training runs in a single piece. A second is cut off
half way, and a new Trainer resumes it from its checkpoint. Both end with the same bits, and all
Linear layers but the head lie in Q. The resumed model is packed, certified, loaded and asked to
write.

    pip install '.[peers]'
    python examples/huggingface_trainer.py            # about 15 seconds
    python examples/huggingface_trainer.py --short    # about 5 seconds

The first command prints, with other figures on other machines:

    300 steps in one piece
      λ 2.8  distance to Q 1.37
      loss 2.00
      λ 8.0  distance to Q 0.76
      loss 0.87
      λ 22.7  distance to Q 0.33
      loss 0.44
      evaluated as if training ended now: 0.35
      λ 64.8  distance to Q 0.12
      loss 0.29
      λ inf  distance to Q 0.00
      loss 0.22
      λ inf  distance to Q 0.00
      loss 0.18
    cut off after 150 steps
      ...
    resumed
      ...
    14 ternary weights, farthest from Q: 0.0
    resumed run equal to the whole one: True
    packed and certified: llama.safetensors, 43,656 bytes, 7.9 times smaller than float32
    it writes: 'Ternary weights take three value'
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)
from transformers.utils.logging import disable_progress_bar

from binaryrelax import (
    Ternary,
    certify,
    distance,
    load_packed,
    pack,
    save_packed,
)
from binaryrelax.integrations.huggingface import (
    RelaxCallback,
    chosen_weights,
    relaxed_optimizer,
)

TEXT = """
A network computes with weights. Float weights can take any value, and each costs thirty-two bits.
Ternary weights take three values only: minus the scale, nothing, and plus the scale. Two bits are
enough for each of them. At first a weight is free. A growing force then pulls it to the nearest of
its three values. When the force is without bound, the weight has arrived and stays in the set. The
optimizer still moves a float weight behind it, so that a weight may cross from one value to the
next. In the end the float weights are thrown away, and what is left is packed.
"""
LETTERS = sorted(set(TEXT))
CONTEXT = 32
PROMPT = "Ternary "


class Windows(Dataset):
    """Every window of the text, as numbers of letters."""

    def __init__(self) -> None:
        self.numbers = as_numbers(TEXT)

    def __len__(self) -> int:
        return len(self.numbers) - CONTEXT

    def __getitem__(self, start: int) -> dict[str, Tensor]:
        window = self.numbers[start : start + CONTEXT]
        return {"input_ids": window, "labels": window}


def as_numbers(text: str) -> Tensor:
    """One number per letter."""
    return torch.tensor([LETTERS.index(letter) for letter in text])


def tiny_llama() -> LlamaForCausalLM:
    """Two layers of width 64, in float32: bfloat16 parameters lose small updates."""
    set_seed(0)
    config = LlamaConfig(
        vocab_size=len(LETTERS),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=4 * CONTEXT,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=None,  # numbers are letters here, all of them
    )
    return LlamaForCausalLM(config)


class ShowAndStop(TrainerCallback):
    """Prints what the Trainer logs, and may stop the training."""

    def __init__(self, stop_at: int | None) -> None:
        self.stop_at = stop_at

    def on_log(self, *_: Any, logs: dict[str, float], **__: Any) -> None:
        """Called with every record of the log."""
        if "loss" in logs:
            print(f"  loss {float(logs['loss']):.2f}")
        if "eval_projected_loss" in logs:
            print(f"  evaluated as if training ended now: {logs['eval_projected_loss']:.2f}")
        if "relax/strength" in logs:
            strength, distance = logs["relax/strength"], logs["relax/distance"]
            print(f"  λ {strength:.1f}  distance to Q {distance:.2f}")

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Ends the training after its checkpoint, as a crash would."""
        control.should_training_stop |= state.global_step == self.stop_at


def trainer(model: nn.Module, steps: int, folder: Path, stop_at: int | None = None) -> Trainer:
    """A Trainer with BinaryRelax: λ grows from 1 to 150 in the first 80 % of the steps."""
    arguments = TrainingArguments(
        output_dir=str(folder),
        max_steps=steps,
        learning_rate=4e-3,
        per_device_train_batch_size=16,
        lr_scheduler_type="cosine",
        eval_strategy="steps",
        eval_steps=steps // 2,
        save_steps=steps // 2,
        logging_steps=max(steps // 6, 1),
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
        seed=0,
    )
    made = Trainer(
        model=model,
        args=arguments,
        train_dataset=Windows(),
        eval_dataset=Windows(),
        optimizer_cls_and_kwargs=relaxed_optimizer(quantizer=Ternary()),
        callbacks=[RelaxCallback(), ShowAndStop(stop_at)],
    )
    made.remove_callback(PrinterCallback)
    return made


def compare(whole: nn.Module, resumed: nn.Module) -> None:
    """Whether the weights lie in Q, and whether both trainings gave the same ones."""
    weights = chosen_weights(resumed, Ternary())
    farthest = max(float(distance(weight, Ternary())) for weight in weights)
    print(f"{len(weights)} ternary weights, farthest from Q: {farthest}")
    pairs = zip(whole.parameters(), resumed.parameters(), strict=True)
    print(f"resumed run equal to the whole one: {all(torch.equal(a, b) for a, b in pairs)}")


def ship(model: nn.Module, file: Path) -> LlamaForCausalLM:
    """Pack, save, certify, and load into a fresh model."""
    save_packed(pack(model, chosen_weights(model, Ternary())), file)
    certificate = certify(file)
    if not certificate.ok:
        raise SystemExit(certificate.reason)
    size = f"{certificate.file_bytes:,} bytes, {certificate.saving:.1f} times smaller than float32"
    print(f"packed and certified: {file.name}, {size}")
    return load_packed(file, tiny_llama())


@torch.no_grad()
def written_by(model: LlamaForCausalLM) -> str:
    """The prompt, continued by the likeliest letters."""
    numbers = model.generate(
        as_numbers(PROMPT)[None],
        max_new_tokens=CONTEXT - len(PROMPT),
        do_sample=False,
        pad_token_id=0,
    )
    return "".join(LETTERS[number] for number in numbers[0])


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description="Train a tiny Llama with ternary weights through transformers' Trainer; "
        "resume it, pack it and let it write."
    )
    parser.add_argument("--short", action="store_true", help="few steps: seconds")
    parser.add_argument("--out", type=Path, default=Path("llama.safetensors"), metavar="FILE")
    return parser.parse_args()


def main() -> None:
    """One training in a piece, one in two; compare them, ship the second."""
    chosen = options()
    steps = 40 if chosen.short else 300
    disable_progress_bar()
    with tempfile.TemporaryDirectory() as folder:
        print(f"{steps} steps in one piece")
        whole = tiny_llama()
        trainer(whole, steps, Path(folder, "whole")).train()

        print(f"cut off after {steps // 2} steps")
        pieces = Path(folder, "pieces")
        trainer(tiny_llama(), steps, pieces, stop_at=steps // 2).train()
        print("resumed")
        resumed = tiny_llama()
        trainer(resumed, steps, pieces).train(resume_from_checkpoint=True)
    compare(whole, resumed)
    loaded = ship(resumed, chosen.out)
    print(f"it writes: {written_by(loaded)!r}")


if __name__ == "__main__":
    main()
