"""eq. 5 written out: the scale is the mean magnitude, the codes are the signs."""

import torch
from hypothesis import given

from binaryrelax import Binary

from .cases import weights


@given(w=weights(torch.float32))
def test_binary_is_eq_5(w):
    scale, codes = Binary().split(w)
    mean = sum(abs(x) for x in w.flatten().tolist()) / w.numel()
    assert scale == torch.tensor(mean, dtype=torch.float64).float()
    expected = [1.0 if x >= 0 or scale == 0 else -1.0 for x in w.flatten().tolist()]
    assert codes.flatten().tolist() == expected
