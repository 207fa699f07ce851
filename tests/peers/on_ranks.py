"""What torchrun starts on each process: a training, whose weights go into a file of the rank.

python -m torch.distributed.run --standalone --nproc-per-node 2 -m tests.peers.on_ranks FOLDER KIND
"""

import os
import sys
from pathlib import Path

import torch
from torch import distributed, nn

from binaryrelax import BinaryRelax, GeometricGrowth, Ternary
from binaryrelax.integrations.huggingface import chosen_weights
from tests.peers.tiny_llama import DATA, relaxed, tiny_llama, trainer_of


def by_trainer(folder: Path) -> dict[str, torch.Tensor]:
    """In the Trainer, with evaluations of the projected model; the second half resumed."""
    settings = {"per_device_train_batch_size": 4, "save_strategy": "steps", "save_steps": 10}
    trainer = trainer_of(tiny_llama(), folder / "run", eval_strategy="epoch", **settings)
    trainer.train()
    again = trainer_of(tiny_llama(), folder / "run", eval_strategy="epoch", **settings)
    again.train(resume_from_checkpoint=str(folder / "run" / "checkpoint-10"))
    projected = [r for r in trainer.state.log_history if "eval_projected_loss" in r]
    found = {f"whole.{name}": p.detach() for name, p in trainer.model.named_parameters()}
    found |= {f"resumed.{name}": p.detach() for name, p in again.model.named_parameters()}
    found |= {
        f"y.{relaxed(trainer).names[w]}": y for w, y in relaxed(trainer).float_weights.items()
    }
    return found | {"projected": torch.tensor([r["eval_projected_loss"] for r in projected])}


def by_accelerate(folder: Path) -> dict[str, torch.Tensor]:
    """In a loop of one's own, with accelerate's DDP and gradient accumulation."""
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    loader = torch.utils.data.DataLoader(DATA, batch_size=4)
    model, loader = accelerator.prepare(tiny_llama(), loader)
    base = torch.optim.AdamW(model.parameters(), lr=5e-3)
    weights = chosen_weights(model, Ternary())
    optimizer = BinaryRelax(base, weights, GeometricGrowth.over(4 * len(loader) // 2))
    prepared = accelerator.prepare(optimizer)
    for _ in range(4):
        for batch in loader:
            with accelerator.accumulate(model):
                accelerator.backward(model(**batch).loss)
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                prepared.step()
                prepared.zero_grad()
    assert optimizer.num_steps == 4 * len(loader) // 2 and optimizer.phase == 2
    assert isinstance(model, nn.parallel.DistributedDataParallel)
    return {name: p.detach() for name, p in model.module.named_parameters()}


def by_lightning(folder: Path) -> dict[str, torch.Tensor]:
    """In Lightning, with validations of the projected weights."""
    from tests.peers.test_lightning import fit

    module, trainer = fit(folder, devices=2, strategy="ddp", num_sanity_val_steps=0)
    assert trainer.world_size == 2 and trainer.optimizers[0].phase == 2
    assert "val_loss_projected" in trainer.callback_metrics
    return dict(module.state_dict())


def main() -> None:
    folder, kind = Path(sys.argv[1]), sys.argv[2]
    torch.set_num_threads(1)
    found = {"trainer": by_trainer, "accelerate": by_accelerate, "lightning": by_lightning}[kind](
        folder
    )
    torch.save(found, folder / f"{os.environ['RANK']}.pt")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
