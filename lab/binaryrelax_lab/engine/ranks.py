"""The processes that train one network together, and what they tell each other."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from binaryrelax_lab.data import Share
from binaryrelax_lab.data.source import WHOLE

LONGEST_SILENCE = timedelta(minutes=10)  # after which a rank that does not answer is given up
LONGEST_TURN = timedelta(hours=6)  # a download may be slow; a process that dies is noticed at once


@dataclass(frozen=True)
class Ranks:
    """This process among those that train with it; alone, if not said otherwise.

    What a method does, all processes do together: each must call it, in the same order.

    Args:
        share: this process's part of each batch.
        is_group: whether they form a process group, of one rank or more.
        device: where the tensors lie that they exchange.
    """

    share: Share = WHOLE
    is_group: bool = False
    device: torch.device = torch.device("cpu")  # noqa: RUF009 (a device is immutable)

    @property
    def is_first(self) -> bool:
        """Whether this process writes the files and speaks."""
        return self.share.rank == 0

    def parallel(self, model: nn.Module, *, in_fixed_order: bool) -> nn.Module:
        """The network with its gradients averaged over all processes.

        Args:
            in_fixed_order: after its first backward pass torch would arrange gradients anew, and so
                sum them in another order: a resumed run would not take the same step as one that
                went through. The price is that gradients are only sent once all of them are there.
        """
        if not self.is_group:
            return model
        network = DistributedDataParallel(model)
        if in_fixed_order:
            network.reducer._push_all_rebuilt_params()
            network.reducer._rebuild_buckets()
        return network

    def gathered(self, value: Tensor) -> Tensor:
        """The values of all processes, in a new first dimension."""
        if not self.is_group:
            return value[None]
        values = [torch.empty_like(value) for _ in range(self.share.world_size)]
        distributed.all_gather(values, value)
        return torch.stack(values)

    def total(self, value: Tensor) -> Tensor:
        """The sum over all processes, in the order of their ranks: the same bits in each."""
        return self.gathered(value).sum(0)

    def all_have(self, number: int) -> bool:
        """Whether the number is the same in all processes."""
        return len(self.gathered(torch.tensor(number, device=self.device)).unique()) == 1

    def any_wishes(self, wish: bool) -> bool:
        """Whether this or another process wishes something."""
        if not self.is_group:
            return wish  # asked after each step: nothing may go to the device and back
        return bool(self.total(torch.tensor(wish, device=self.device)))

    def take_from_first(self, tensors: Iterable[Tensor]) -> None:
        """Overwrites the tensors with those of the first process."""
        if self.is_group:
            for tensor in tensors:
                distributed.broadcast(tensor, 0)

    def in_turn(self, work: Callable[[], None]) -> None:
        """Each process does the work while the others wait, the first one first.

        For what is done once on each disk, such as a download: the next one sees that it is done.
        If it fails in one process it fails in all, with the same words and the same kind of error.
        """
        if not self.is_group:
            work()
            return
        patient = distributed.new_group(backend="gloo", timeout=LONGEST_TURN)
        for rank in range(self.share.world_size):
            error = _error_of(work) if rank == self.share.rank else None
            told = [None if error is None else (_plain_kind(error), str(error))]
            distributed.broadcast_object_list(told, rank, group=patient)
            if told[0] is not None:
                kind, words = told[0]
                raise kind(words) from error

    def wait_for_all(self) -> None:
        """Returns once every process is here."""
        if self.is_group:
            index = self.device.index
            distributed.barrier(device_ids=None if index is None else [index])


@contextmanager
def ranks_of_torchrun(device: torch.device) -> Iterator[Ranks]:
    """All processes that torchrun has started; this one alone if it was started otherwise."""
    if not under_torchrun():
        yield Ranks()
        return
    backend = "nccl" if device.type == "cuda" else "gloo"
    distributed.init_process_group(backend, timeout=LONGEST_SILENCE)
    try:
        share = Share(distributed.get_rank(), distributed.get_world_size())
        yield Ranks(share, is_group=True, device=device)
    finally:
        distributed.destroy_process_group()


def _error_of(work: Callable[[], None]) -> Exception | None:
    try:
        work()
    except Exception as error:
        return error
    return None


def _plain_kind(error: Exception) -> type[ValueError]:
    """That of a `ValueError` which is made of its words alone, so that others can make it too."""
    if isinstance(error, ValueError) and type(error).__init__ is ValueError.__init__:
        return type(error)
    return ValueError


def under_torchrun() -> bool:
    """Whether torchrun has started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ
