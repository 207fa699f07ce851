"""The nearest relative of our packed products on a GPU, to compare with: gemlite."""

from typing import Any

import torch
from torch import Tensor

GROUP = 128  # weights that share a scale; it knows no larger groups at all bit widths


def gemlite_layer(codes: Tensor, scale: Tensor, bits: int, dtype: torch.dtype) -> Any:
    """Its layer with the weights scale * level; codes are one byte each, (outputs, inputs).

    Raises:
        ImportError: gemlite is not installed.
    """
    from gemlite.core import DType, GemLiteLinear

    outputs, inputs = codes.shape
    kind = DType.BF16 if dtype == torch.bfloat16 else DType.FP16
    layer = GemLiteLinear(
        bits,
        group_size=GROUP,
        in_features=inputs,
        out_features=outputs,
        input_dtype=kind,
        output_dtype=kind,
    )
    num_groups = outputs * inputs // GROUP
    # It computes (code - zero) * scale: half a step for -1 and 1, a whole one for -1, 0 and 1.
    step, zero = (2.0, 0.5) if bits == 1 else (1.0, 1.0)
    scales = (scale * step).to(dtype).expand(num_groups, 1).contiguous()
    layer.pack(codes, scales, torch.full_like(scales, zero), None)
    return layer
