"""A weight as codes and scales, and how to get the float weight back, bit for bit."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from binaryrelax.packed.bits import MAX_BITS, bytes_per_row, pack_bits, unpack_bits
from binaryrelax.quantizers import Granularity, Quantizer, distance
from binaryrelax.quantizers.validation import require_codebook

PACKABLE = (torch.float32, torch.float16, torch.bfloat16)  # those whose scales float32 can hold
BINARY = (-1.0, 1.0)
TERNARY = (-1.0, 0.0, 1.0)


@dataclass(frozen=True)
class WeightFormat:
    """What the codes and scales of a weight mean.

    Args:
        shape: of the float weight.
        codebook: the levels that a code is an index into, signed and increasing.
        granularity: which weights share a scale.
        dtype: of the float weight.

    Attributes:
        bits: per code in the canonical layout, scales not counted.
        num_scales: how many scales the weight has: its granularity decides.
    """

    shape: tuple[int, ...]
    codebook: tuple[float, ...]
    granularity: Granularity
    dtype: torch.dtype
    bits: int = field(init=False, repr=False)  # no cached property: torch.compile fails at its lock
    num_scales: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        groups = self.granularity.rows(torch.empty(self.shape, device="meta"))
        object.__setattr__(self, "bits", math.ceil(math.log2(len(self.codebook))))
        object.__setattr__(self, "num_scales", groups.shape[0])

    @property
    def described(self) -> dict[str, str]:
        """What codes and scales must agree on to be exchanged, in words."""
        parts = {"codebook": self.codebook, "granularity": self.granularity, "shape": self.shape}
        return {name: repr(part) for name, part in parts.items()}

    @property
    def num_rows(self) -> int:
        """Rows of ``weight.reshape(out, -1)``."""
        return self.shape[0]

    @property
    def num_weights(self) -> int:
        """Weights of the layer."""
        return math.prod(self.shape)

    @property
    def row_length(self) -> int:
        """Weights in a row of ``weight.reshape(out, -1)``."""
        return math.prod(self.shape[1:])

    @property
    def codes_shape(self) -> tuple[int, int]:
        """Shape of the packed codes."""
        return self.num_rows, bytes_per_row(self.row_length, self.bits)


@dataclass(frozen=True, eq=False)
class PackedWeight:
    """weight = scale * codebook[code], with the codes packed into bytes.

    Args:
        format: what the other two mean.
        codes: uint8, canonical layout: ``format.bits`` per code, least significant first,
            row-major over ``weight.reshape(out, -1)``, rows padded with zeros to whole bytes.
        scale: float32, one entry per group of weights that share it.
    """

    format: WeightFormat
    codes: Tensor
    scale: Tensor

    def unpack(self) -> Tensor:
        """The float weight: the same bits as the weight that was packed."""
        form = self.format
        values = _values(self.codes, form).reshape(form.num_scales, -1)
        return values.mul_(self.scale.to(form.dtype).unsqueeze(1)).reshape(form.shape)

    def unpack_rows(self, rows: Tensor) -> Tensor:
        """``unpack()[rows]`` of a matrix, (len(rows), row length), without unpacking the others."""
        form = self.format
        scale = self.scale.to(form.dtype)
        if form.num_scales >= form.num_rows > 1:  # else one is for all rows
            scale = scale.reshape(form.num_rows, -1).index_select(0, rows)
        else:
            scale = scale.reshape(1, -1).expand(len(rows), -1)
        codes = self.codes.index_select(0, rows)  # unlike codes[rows] it takes no row below 0
        values = _values(codes, form).reshape(*scale.shape, form.row_length // scale.shape[1])
        return values.mul_(scale.unsqueeze(-1)).reshape(len(rows), form.row_length)

    def indices(self) -> Tensor:
        """The codes, one number each, in the shape of the weight."""
        return unpack_bits(self.codes, self.format.row_length, self.format.bits).reshape(
            self.format.shape
        )

    def problem(self) -> str | None:
        """Why these are not codes and scales of this format, or None if they are."""
        return self._problem_of_codes() or self.problem_of_scale()

    def problem_of_scale(self) -> str | None:
        """The same of the scales alone, beside codes that are known to be good."""
        form = self.format
        if tuple(self.scale.shape) != (form.num_scales,) or self.scale.dtype != torch.float32:
            return f"scales are {_look(self.scale)}, not float32 of shape ({form.num_scales},)"
        if not bool((self.scale.isfinite() & (self.scale >= 0)).all()):
            return "a scale is negative, NaN or infinite"
        return self._problem_of_dtype()

    def _problem_of_codes(self) -> str | None:
        form = self.format
        if tuple(self.codes.shape) != form.codes_shape or self.codes.dtype != torch.uint8:
            return f"codes are {_look(self.codes)}, not uint8 of shape {form.codes_shape}"
        indices = unpack_bits(self.codes, form.row_length, form.bits)
        if indices.numel() and int(indices.max()) >= len(form.codebook):
            return f"a code is not below {len(form.codebook)}, the size of the codebook"
        if not torch.equal(pack_bits(indices, form.bits), self.codes):
            return "the padding of a row is not zero"
        return None

    def _problem_of_dtype(self) -> str | None:
        """A file could name a dtype that holds neither its scales nor its weights."""
        dtype = self.format.dtype
        scale = self.scale.to(dtype)
        if not torch.equal(scale.float(), self.scale):
            return f"a scale is not a number of {dtype}, the dtype of the weights"
        largest = scale.new_tensor(max(map(abs, self.format.codebook)))
        if bool((scale * largest).isfinite().all()):
            return None
        is_finite = bool(self.unpack().isfinite().all())  # the largest level may not occur
        return None if is_finite else f"a weight is infinite in {dtype}"


def problem_of_state(
    form: WeightFormat, described: object, codes: object, scale: object
) -> str | None:
    """Why a layer of this format cannot take codes and scales of a state dict, or None if it can.

    Args:
        form: of the layer.
        described: the format of the layer that they are from; None where nobody has told.
        codes, scale: what the state dict holds, if anything.
    """
    here = _words(form.described)
    if described is not None and (codes is not None or scale is not None):
        is_alike = described == form.described
        return None if is_alike else f"the state dict is of {_words(described)}; here it is {here}"
    for tensor in (codes, scale):
        if type(tensor) not in (Tensor, torch.nn.Parameter) or tensor.is_meta:  # type: ignore[attr-defined]
            return None  # nothing to look at: torch says what is missing
    assert isinstance(codes, Tensor) and isinstance(scale, Tensor)
    if tuple(codes.shape) != form.codes_shape or tuple(scale.shape) != (form.num_scales,):
        return None  # torch says so
    problem = PackedWeight(form, codes, scale.float()).problem()
    return None if problem is None else f"{problem}; here it is {here}"


def _words(described: object) -> str:
    if not isinstance(described, dict):
        return repr(described)[:200]
    return ", ".join(f"{name} {str(value)[:200]}" for name, value in described.items())


def pack_weight(weight: Tensor, quantizer: Quantizer) -> PackedWeight:
    """The codes and scales of a weight that is in Q.

    Raises:
        ValueError: it is not in Q, or has a dtype whose scales float32 cannot hold.
    """
    if weight.dtype not in PACKABLE:
        raise ValueError(
            f"its weights are {weight.dtype}; scales are stored in float32: convert the model with "
            "model.float() and project the weights again"
        )
    if weight.numel() == 0 or weight.is_meta:
        what = "empty" if weight.numel() == 0 else "on the meta device"
        raise ValueError(f"its weight is {what}, of shape {tuple(weight.shape)}")
    quantizer.check(weight)
    form = WeightFormat(
        tuple(weight.shape),
        require_codebook(quantizer),
        quantizer.granularity.as_stored(tuple(weight.shape)),
        weight.dtype,
    )
    if form.bits > MAX_BITS:
        raise ValueError(f"{quantizer!r} takes {form.bits} bits; at most {MAX_BITS} pack")
    scale, levels = _split(weight, quantizer, form)
    codebook = torch.tensor(form.codebook, dtype=weight.dtype, device=weight.device)
    indices = torch.searchsorted(codebook, levels.reshape(form.num_rows, -1))
    # Groups of whole rows that share a scale are stored with one for each row.
    scale = scale.repeat_interleave(form.num_scales // len(scale)).float()
    return PackedWeight(form, pack_bits(indices, form.bits), scale)


def _split(weight: Tensor, quantizer: Quantizer, form: WeightFormat) -> tuple[Tensor, Tensor]:
    """The scale of each group of a weight that is in Q, and its levels, (groups, their weights)."""
    groups = quantizer.granularity.rows(weight.detach()).contiguous()
    scale, levels = (found.clone() for found in quantizer.split_groups(groups))
    quantizer.refuse_outside_q(scale, levels)
    scale = scale.unsqueeze(1)
    inexact = (levels * scale != groups).any(dim=1)
    if bool(inexact.any()):  # a heuristic, or more than 4 bits: the scale may be found otherwise
        scale[inexact], levels[inexact] = _recovered(groups[inexact], form.codebook)
    if not torch.equal(levels * scale, groups):
        raise ValueError(
            f"its weights are not in Q: distance {float(distance(weight, quantizer)):.3g} to "
            f"{quantizer!r}; train to the end of Phase II, or pack inside optimizer.projected()"
        )
    return scale.squeeze(1), levels.contiguous()


def _values(codes: Tensor, form: WeightFormat) -> Tensor:
    """codebook[code] in the dtype of the weight, (rows, row length)."""
    unused = 2**form.bits - len(form.codebook)
    # Not torch.cat, which autocast refuses for half precision of another kind than its own.
    entries = (*form.codebook, *[math.nan] * unused)
    levels = torch.tensor(entries, dtype=form.dtype, device=codes.device)
    if 8 % form.bits:
        return levels[unpack_bits(codes, form.row_length, form.bits).int()]
    # Whole bytes at a time: a table of all 256 is far faster than shifting bit by bit.
    every_byte = torch.arange(256, dtype=torch.uint8, device=codes.device).unsqueeze(1)
    table = levels[unpack_bits(every_byte, 8 // form.bits, form.bits).int()]
    width = codes.shape[1] * (8 // form.bits)
    values = torch.nn.functional.embedding(codes.int(), table).reshape(len(codes), width)
    return values[:, : form.row_length].contiguous()


def _recovered(groups: Tensor, codebook: tuple[float, ...]) -> tuple[Tensor, Tensor]:
    """Scale and levels of groups that are in Q though ``split`` gives others, where there are any.

    In a group of Q the largest magnitude is a level times the scale, give or take a rounding.
    """
    levels = torch.tensor(codebook, dtype=groups.dtype, device=groups.device)
    largest = groups.abs().amax(dim=1, keepdim=True)
    best_scale, best_levels = torch.zeros_like(largest), torch.zeros_like(groups)
    found = torch.zeros_like(largest, dtype=torch.bool)
    sizes = groups.new_tensor(sorted({abs(level) for level in codebook}, reverse=True))
    for level in sizes[sizes > 0]:
        middle = largest / level
        for scale in (middle, _next(middle, math.inf), _next(middle, 0.0)):
            nearest = _nearest(groups, scale, levels)
            fits = (nearest * scale == groups).all(dim=1, keepdim=True) & ~found
            best_scale = torch.where(fits, scale, best_scale)
            best_levels = torch.where(fits, nearest, best_levels)
            found |= fits
    return best_scale, best_levels


def _nearest(groups: Tensor, scale: Tensor, levels: Tensor) -> Tensor:
    wide = levels.double()  # bfloat16 has 8 bits itself: its quotients would miss levels of 8 bits
    ratios = torch.where(scale > 0, groups.double() / scale.double(), 0.0)
    return levels[torch.bucketize(ratios, (wide[1:] + wide[:-1]) / 2)]


def _next(values: Tensor, towards: float) -> Tensor:
    return torch.nextafter(values, torch.full_like(values, towards))


def _look(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"
