"""How many test images a network gets right."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from binaryrelax_lab.data import ImageSource
from binaryrelax_lab.engine.compiled import Compiled
from binaryrelax_lab.engine.cuda_graph import GraphedFunction
from binaryrelax_lab.engine.machine import Machine
from binaryrelax_lab.engine.task import Measured

CPU_BATCH, GPU_BATCH, PHOTOGRAPHS = 500, 2000, 250


class Evaluation:
    """Counts right answers of a network as it is at the moment; see `measured`.

    Args:
        often: it will be asked after each epoch, which is worth compiling the network on a GPU.
        note: told if that fails.
    """

    def __init__(
        self,
        model: nn.Module,
        data: ImageSource,
        machine: Machine,
        *,
        often: bool = False,
        note: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.model, self.data, self.machine = model, data, machine
        self._right: Callable[..., Tensor] = RightAnswers(model, data, machine)
        self._num_right = torch.zeros(
            len(self._right.places), dtype=torch.long, device=machine.device
        )
        self._count: Callable[..., None] = self._count_right
        if machine.is_gpu and not machine.ranks.is_group:
            if often:
                self._right = Compiled(
                    self._right,
                    length=self._batch_size,
                    slower=lambda why: note(f"not compiled, evaluation is slower: {why}"),
                )
            self._count = GraphedFunction(self._count_right)

    @torch.no_grad()
    def measured(self) -> Measured:
        """Percentages of the whole test set: "accuracy", and for ImageNet "accuracy_top5"."""
        self._num_right.zero_()
        was_training = self.model.training
        self.model.eval()
        for batch in self.data.test_batches(self._batch_size, self.machine.ranks.share):
            self._count(*batch)
        self.model.train(was_training)
        num_right = self.machine.ranks.total(self._num_right).tolist()
        percentages = [100 * right / self.data.num_test for right in num_right]
        return dict(zip(("accuracy", "accuracy_top5"), percentages, strict=False))

    @property
    def _batch_size(self) -> int:
        if self.data.reports_top5:
            return PHOTOGRAPHS
        return GPU_BATCH if self.machine.is_gpu else CPU_BATCH

    def _count_right(self, *batch: Tensor) -> None:
        self._num_right += self._right(*batch)


class RightAnswers(nn.Module):
    """How many images of a batch have their label among the best 1 (and 5) scores.

    A module, because torch.compile then shares its work among networks of the same kind.
    """

    def __init__(self, model: nn.Module, data: ImageSource, machine: Machine) -> None:
        super().__init__()
        self.model, self.data, self.machine = model, data, machine
        self.places = (1, 5) if data.reports_top5 else (1,)

    def forward(self, *batch: Tensor) -> Tensor:
        """One count for each of `places`, int64."""
        images, labels = self.data.look_up_test(*batch)
        with self.machine.autocast():
            scores = self.model(images)
        best = scores.topk(min(max(self.places), scores.shape[1])).indices
        is_right = best == labels[:, None]
        return torch.stack([is_right[:, :place].sum() for place in self.places])
