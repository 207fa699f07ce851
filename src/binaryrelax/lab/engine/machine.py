"""Where a run computes, and how: device, precision, and its place among several processes."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from binaryrelax.lab.data import Share
from binaryrelax.lab.data.source import WHOLE

PRECISIONS = ("bf16", "fp32")
LONGEST_SILENCE = timedelta(minutes=10)  # after which a rank that does not answer is given up


@dataclass(frozen=True)
class Machine:
    """What a run computes on.

    Args:
        precision: "fp32", or "bf16" for automatic mixed precision; parameters are float32 in both.
        deterministic: the same bits in each run on the same GPU, at some cost in speed. A CPU
            gives the same bits anyway.
        share: this process's part of each batch.
        is_distributed: whether gradients are averaged over a process group, of one rank or more.
    """

    device: torch.device = torch.device("cpu")  # noqa: RUF009 (a device is immutable)
    precision: str = "fp32"
    deterministic: bool = False
    share: Share = WHOLE
    is_distributed: bool = False

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise ValueError(f"--precision {self.precision}: choose {' or '.join(PRECISIONS)}")

    @property
    def is_gpu(self) -> bool:
        """Whether this is a CUDA device."""
        return self.device.type == "cuda"

    @property
    def is_first(self) -> bool:
        """Whether this process writes the files and speaks."""
        return self.share.rank == 0

    def parallel(self, model: nn.Module) -> nn.Module:
        """The network with its gradients averaged over all processes, if there are several."""
        if not self.is_distributed:
            return model
        network = DistributedDataParallel(model)
        if self.deterministic or not self.is_gpu:
            # After its first backward pass it would arrange gradients anew, and so sum them in
            # another order: a resumed run would not take the same step as one that went through.
            # The price is that gradients are only sent once all of them are there.
            network.reducer._push_all_rebuilt_params()
            network.reducer._rebuild_buckets()
        return network

    def gathered(self, value: Tensor) -> Tensor:
        """The values of all processes, in a new first dimension; all of them must call it."""
        if not self.is_distributed:
            return value[None]
        values = [torch.empty_like(value) for _ in range(self.share.world_size)]
        distributed.all_gather(values, value)
        return torch.stack(values)

    def any_wishes(self, wish: bool) -> bool:
        """Whether this or another process wishes something; all of them must ask."""
        if not self.is_distributed:
            return wish
        return bool(self.gathered(torch.tensor(wish, device=self.device)).any())

    def all_have(self, number: int) -> bool:
        """Whether the number is the same in all processes; all of them must ask."""
        return len(self.gathered(torch.tensor(number, device=self.device)).unique()) == 1

    def wait_for_all(self) -> None:
        """Returns once every process is here."""
        if self.is_distributed:
            distributed.barrier(device_ids=[self.device.index] if self.is_gpu else None)

    def autocast(self) -> torch.autocast:
        """The context of forward passes."""
        return torch.autocast(
            self.device.type, torch.bfloat16, enabled=self.precision == "bf16", cache_enabled=False
        )

    @contextmanager
    def settings(self) -> Iterator[None]:
        """Torch's global switches for this machine inside, as they were after."""
        before = (
            torch.are_deterministic_algorithms_enabled(),
            torch.backends.cudnn.deterministic,
            torch.backends.cudnn.benchmark,
        )
        if self.deterministic:
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # else cuBLAS may differ
        torch.use_deterministic_algorithms(self.deterministic)
        torch.backends.cudnn.deterministic = self.deterministic
        torch.backends.cudnn.benchmark = self.is_gpu and not self.deterministic
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(before[0])
            torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = before[1:]


@contextmanager
def this_machine(*, precision: str | None = None, deterministic: bool = False) -> Iterator[Machine]:
    """The best machine at hand: a GPU if there is one, and all ranks if torchrun started this.

    Args:
        precision: bf16 on a GPU and fp32 on a CPU, if not given.
        deterministic: see `Machine`.
    """
    on_gpu = torch.cuda.is_available()
    precision = precision or ("bf16" if on_gpu else "fp32")
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        yield Machine(torch.device("cuda" if on_gpu else "cpu"), precision, deterministic)
        return
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    distributed.init_process_group("nccl" if on_gpu else "gloo", timeout=LONGEST_SILENCE)
    try:
        share = Share(distributed.get_rank(), distributed.get_world_size())
        yield Machine(device, precision, deterministic, share, is_distributed=True)
    finally:
        distributed.destroy_process_group()
