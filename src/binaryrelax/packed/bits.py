"""Codes as bytes: b bits per code, least significant first, or five trits per byte.

A code is an index into a codebook. Rows are packed one by one and padded with zeros to whole
bytes, so that every row starts at a byte.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

TRITS_PER_BYTE = 5  # 3^5 = 243 <= 256
_POWERS_OF_THREE = (1, 3, 9, 27, 81)
_ENTRIES_AT_ONCE = 1 << 16
MAX_BITS = 15  # codes travel as int16


def bytes_per_row(num_codes: int, bits: int) -> int:
    """How many bytes a row of codes takes."""
    return math.ceil(num_codes * bits / 8)


def trit_bytes_per_row(num_codes: int) -> int:
    """How many bytes a row of trits takes."""
    return math.ceil(num_codes / TRITS_PER_BYTE)


def pack_bits(codes: Tensor, bits: int) -> Tensor:
    """Codes (rows, n), whole numbers below 2^bits, as bytes (rows, bytes_per_row)."""
    return _in_blocks(lambda rows: _pack_bits(rows, bits), codes)


def unpack_bits(packed: Tensor, num_codes: int, bits: int) -> Tensor:
    """The codes (rows, num_codes) that ``pack_bits`` has packed, as uint8, or int16 from 9 bits."""
    return _in_blocks(lambda rows: _unpack_bits(rows, num_codes, bits), packed)


def pack_trits(codes: Tensor) -> Tensor:
    """Codes (rows, n), each 0, 1 or 2, five to a byte: c0 + 3 c1 + 9 c2 + 27 c3 + 81 c4."""
    return _in_blocks(_pack_trits, codes)


def unpack_trits(packed: Tensor, num_codes: int) -> Tensor:
    """The codes (rows, num_codes) that ``pack_trits`` has packed, as uint8."""
    return _in_blocks(lambda rows: _unpack_trits(rows, num_codes), packed)


def _in_blocks(convert: Callable[[Tensor], Tensor], rows: Tensor) -> Tensor:
    """Some rows at a time: one by one, bits take many times the memory of what they are in."""
    at_once = max(1, _ENTRIES_AT_ONCE // max(1, rows.shape[1]))
    first = convert(rows[:at_once])
    if len(rows) <= at_once:
        return first
    result = first.new_empty(len(rows), first.shape[1])
    result[:at_once] = first
    for begin in range(at_once, len(rows), at_once):
        result[begin : begin + at_once] = convert(rows[begin : begin + at_once])
    return result


def _pack_bits(codes: Tensor, bits: int) -> Tensor:
    rows, n = codes.shape
    planes = torch.arange(bits, device=codes.device, dtype=torch.int16)
    stream = codes.to(torch.int16).unsqueeze(-1).bitwise_right_shift(planes).bitwise_and_(1)
    stream = stream.to(torch.uint8).reshape(rows, n * bits)
    num_bytes = bytes_per_row(n, bits)
    stream = _padded(stream, 8 * num_bytes).reshape(rows, num_bytes, 8)
    places = torch.arange(8, device=codes.device, dtype=torch.uint8)
    return stream.bitwise_left_shift(places).sum(-1, dtype=torch.uint8)


def _unpack_bits(packed: Tensor, num_codes: int, bits: int) -> Tensor:
    rows = packed.shape[0]
    dtype = torch.uint8 if bits <= 8 else torch.int16
    places = torch.arange(8, device=packed.device, dtype=torch.uint8)
    stream = packed.unsqueeze(-1).bitwise_right_shift(places).bitwise_and_(1)
    stream = stream.flatten(1)[:, : num_codes * bits].reshape(rows, num_codes, bits)
    planes = torch.arange(bits, device=packed.device, dtype=dtype)
    return stream.to(dtype).bitwise_left_shift(planes).sum(-1, dtype=dtype)


def _pack_trits(codes: Tensor) -> Tensor:
    rows, n = codes.shape
    digits = _padded(codes.to(torch.uint8), TRITS_PER_BYTE * trit_bytes_per_row(n))
    powers = torch.tensor(_POWERS_OF_THREE, device=codes.device, dtype=torch.uint8)
    digits = digits.reshape(rows, trit_bytes_per_row(n), TRITS_PER_BYTE)
    return (digits * powers).sum(-1, dtype=torch.uint8)


def _unpack_trits(packed: Tensor, num_codes: int) -> Tensor:
    powers = torch.tensor(_POWERS_OF_THREE, device=packed.device, dtype=torch.uint8)
    digits = packed.unsqueeze(-1).div(powers, rounding_mode="floor").remainder_(3)
    return digits.flatten(1)[:, :num_codes].contiguous()


def _padded(rows: Tensor, width: int) -> Tensor:
    return torch.nn.functional.pad(rows, (0, width - rows.shape[1]))
