"""Where a run computes, and how: device, precision, and the processes that take part."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from binaryrelax_lab.engine.bf16_on_cpu import make_bf16_safe
from binaryrelax_lab.engine.ranks import Ranks, ranks_of_torchrun, under_torchrun

PRECISIONS = ("bf16", "fp32")
TOO_SMALL_FOR_THREADS = ("small-conv",)


@dataclass(frozen=True)
class Machine:
    """What a run computes on.

    Args:
        precision: "fp32", or "bf16" for automatic mixed precision; parameters are float32 in both.
        deterministic: the same bits in each run on the same GPU, at some cost in speed. A CPU
            gives the same bits anyway.
        ranks: the processes that train together.
        other_jobs: how many other networks are trained beside each, at most.
    """

    device: torch.device = torch.device("cpu")  # noqa: RUF009 (a device is immutable)
    precision: str = "fp32"
    deterministic: bool = False
    ranks: Ranks = Ranks()  # noqa: RUF009 (frozen)
    other_jobs: int = 0

    def __post_init__(self) -> None:
        require_precision(self.precision)

    @property
    def is_gpu(self) -> bool:
        """Whether this is a CUDA device."""
        return self.device.type == "cuda"

    def autocast(self) -> torch.autocast:
        """The context of forward passes."""
        return torch.autocast(
            self.device.type, torch.bfloat16, enabled=self.precision == "bf16", cache_enabled=False
        )

    @contextmanager
    def enough_threads(self, networks: Iterable[str]) -> Iterator[None]:
        """A single thread inside if these networks are too small to share among several."""
        if self.is_gpu or any(network not in TOO_SMALL_FOR_THREADS for network in networks):
            yield
            return
        with one_thread():
            yield

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


def require_precision(precision: str | None) -> None:
    """A `ValueError` if there is no such precision; None stands for the usual one."""
    if precision not in (*PRECISIONS, None):
        raise ValueError(f"precision {precision}: choose {' or '.join(PRECISIONS)}")


@contextmanager
def one_thread() -> Iterator[None]:
    """Lets torch use a single thread inside.

    OpenMP's threads wait for each other by spinning: with two of them on two cores, one busy
    neighbour made an epoch of the demo take 31 seconds instead of 2.7 with a single thread. The
    price is 2.3 instead of 1.3 seconds on an idle machine. It also makes the bits of the result
    independent of the number of cores.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def this_machine(*, precision: str | None = None, deterministic: bool = False) -> Iterator[Machine]:
    """The best machine at hand: a GPU if there is one, and all ranks if torchrun started this.

    Args:
        precision: bf16 on a GPU and fp32 on a CPU, if not given.
        deterministic: see `Machine`.
    """
    device = _best_device()
    precision = precision or ("bf16" if device.type == "cuda" else "fp32")
    if device.type == "cpu" and precision == "bf16":
        make_bf16_safe()
    with ranks_of_torchrun(device) as ranks:
        yield Machine(device, precision, deterministic, ranks)


def _best_device() -> torch.device:
    """A GPU of this process's own, or the CPU."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    if not under_torchrun():
        return torch.device("cuda")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    return device
