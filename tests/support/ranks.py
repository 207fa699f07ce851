"""Real processes that form a gloo group on this machine, each running one function."""

import multiprocessing
import warnings
from datetime import timedelta
from pathlib import Path

import torch
from torch import distributed
from torch.multiprocessing import start_processes

# A server imports these once and forks the ranks; each would take seconds to import them itself.
SLOW_TO_IMPORT = (
    "torch._dynamo",  # by fully_shard
    "torch.distributed.checkpoint.state_dict",
    "torch.distributed.fsdp",
    "torch.distributed.tensor",
    "tests.optim.toy",
)
PATIENCE = timedelta(seconds=60)  # with which ranks wait for one that failed


def run_on_ranks(function, num_ranks: int, folder: Path, *arguments) -> list:
    """What ``function(*arguments)`` returned on each rank; its exceptions are raised here."""
    folder.mkdir(parents=True, exist_ok=True)
    multiprocessing.set_forkserver_preload(list(SLOW_TO_IMPORT))
    given = (function, num_ranks, str(folder), arguments)
    start_processes(_run, given, num_ranks, start_method="forkserver")
    return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(num_ranks)]


def _run(rank: int, function, num_ranks: int, folder: str, arguments: tuple) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("error")
    distributed.init_process_group(
        "gloo",
        init_method=f"file://{folder}/meeting",
        rank=rank,
        world_size=num_ranks,
        timeout=PATIENCE,
    )
    try:
        torch.save(function(*arguments), f"{folder}/{rank}.pt")
    finally:
        distributed.destroy_process_group()
