"""The step of plain SGD on y (eq. 10), taken on the way by the first kernel that reads y.

To read y once more, only to find its scale, would cost as much as all else that the kernel does.
"""

import triton
import triton.language as tl

from binaryrelax.kernels import sgd

HEAVY_BALL = tl.constexpr(sgd.HEAVY_BALL)
NESTEROV = tl.constexpr(sgd.NESTEROV)


@triton.jit
def descend(
    y, gradient, velocity, at, inside, lr, momentum, undamped, weight_decay, DESCENT: tl.constexpr
):
    """y <- y - lr * direction, as ``torch.optim.SGD`` does it; returns the new y."""
    old = tl.load(y + at, mask=inside, other=0.0)
    direction = tl.load(gradient + at, mask=inside, other=0.0) + weight_decay * old
    if DESCENT >= HEAVY_BALL:
        before = tl.load(velocity + at, mask=inside, other=0.0)
        after = momentum * before + undamped * direction
        tl.store(velocity + at, after, mask=inside)
        direction = direction + momentum * after if DESCENT == NESTEROV else after
    new = old - lr * direction
    tl.store(y + at, new, mask=inside)
    return new
