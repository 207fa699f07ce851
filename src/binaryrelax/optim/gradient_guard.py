"""Who else looks at the gradients while base steps: some may not, for others room is made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from torch import Tensor
from torch.optim import Optimizer, optimizer as optimizer_module
from torch.utils.hooks import RemovableHandle


class GradientGuard:
    """Refuses second derivatives, for which ``base`` would find y in the parameters, not x.

    Only gradients of ``loss.backward(create_graph=True)`` can be differentiated again, and no
    optimizer of ``torch.optim`` does it: to these nothing happens.
    """

    def __init__(self, base: Optimizer) -> None:
        self._base = base
        self._hooks: list[RemovableHandle] = []

    def put_up(self) -> None:
        """Guard the gradients that there are now."""
        self.take_down()
        for group in self._base.param_groups:
            for parameter in group["params"]:
                gradient = parameter.grad
                if gradient is not None and gradient.requires_grad:
                    self._hooks.append(gradient.register_hook(self._refuse))

    def take_down(self) -> None:
        """Guard nothing."""
        while self._hooks:
            self._hooks.pop().remove()

    def _refuse(self, _: Tensor) -> NoReturn:
        raise ValueError(
            f"BinaryRelax: {type(self._base).__name__} differentiates the gradients again, while "
            "the parameters hold other weights than those of the loss: wrap an optimizer that "
            "takes first derivatives only, such as those of torch.optim"
        )


@contextmanager
def guarded_gradients(base: Optimizer) -> Iterator[GradientGuard]:
    """Inside, whoever differentiates the gradients of ``base`` again gets a ValueError."""
    guard = GradientGuard(base)
    guard.put_up()
    try:
        yield guard
    finally:
        guard.take_down()


def has_hooks(base: Optimizer) -> bool:
    """Whether someone looks at base's gradients, and may change them, when it steps."""
    everywhere = vars(optimizer_module)
    return bool(
        base._optimizer_step_pre_hooks
        or base._optimizer_step_post_hooks
        or everywhere.get("_global_optimizer_pre_hooks")
        or everywhere.get("_global_optimizer_post_hooks")
    )
