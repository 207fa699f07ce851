"""A packed weight on a CUDA device, multiplied without being unpacked in memory."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache

import torch
import triton.language as tl
from torch import Tensor

from binaryrelax.kernels import packed_product
from binaryrelax.kernels.packed_product import multiply_few, multiply_many

WORDS, ROWS = int(packed_product.WORDS), int(packed_product.ROWS)
MOST_FEW = 16  # vectors; more are multiplied in tiles
INPUTS_OF_WARP = 512  # that a warp multiplies at once
MOST_SPAN = 2  # steps whose words are loaded at once
ROWS_AT_ONCE = 1024  # laid out at once: their weights take a few bytes each meanwhile
NUM_PROCESSORS = 132  # where there is no device to ask
FIELDS = {1: (0, 1), 2: (3, 0, 1)}  # code -> bits of a word: for ternary, sign and "not zero"
HALVES = (torch.bfloat16, torch.float16)


@dataclass(frozen=True, kw_only=True)
class FewPlan:
    """How up to 16 vectors are multiplied.

    Args:
        tiles: of 16 outputs, made by one program.
        warps: of a program; they share the inputs.
        loads: of activations, 16 bytes each, that a thread has under way before it multiplies.
        early: whether a program loads its weights while the kernel before is still running.
    """

    tiles: int = 1
    warps: int = 8
    loads: int = 16
    early: bool = False


@dataclass(frozen=True, kw_only=True)
class ManyPlan:
    """How many vectors are multiplied: outputs and vectors of a program, and its resources."""

    height: int = 64
    columns: int = 64
    warps: int = 4
    stages: int = 3


Plan = FewPlan | ManyPlan


class PackedMatrix:
    """y = scale * W x + bias, with a W of 1 bit (-1, 1) or 2 bits (-1, 0, 1) a weight.

    Activations stay as they are and sums are float32. There is no gradient. The same call gives the
    same bits again.

    Args:
        codes: the canonical layout, uint8 of shape (outputs, bytes of a row), on the device.
        scale: float32, one entry or one for each output.
        inputs: weights in a row.
        bits: 1 (code 1 is +1, code 0 is -1) or 2 (code q + 1).
    """

    def __init__(self, codes: Tensor, scale: Tensor, inputs: int, bits: int) -> None:
        _check_codes(codes, inputs, bits)
        self.inputs, self.outputs, self.bits = inputs, codes.shape[0], bits
        if scale.dtype != torch.float32 or scale.numel() not in (1, self.outputs):
            raise ValueError(
                f"PackedMatrix: scale must be float32 with 1 or {self.outputs} entries, "
                f"not {scale.dtype} with {scale.numel()}"
            )
        self.scale = scale.detach().to(codes.device).flatten().contiguous()
        self.words = _lay_out(codes, inputs, bits)

    @property
    def nbytes(self) -> int:
        """Memory that the words and scales take."""
        return self.words.nbytes + self.scale.nbytes

    def multiply(
        self, x: Tensor, bias: Tensor | None = None, *, plan: Plan | None = None
    ) -> Tensor:
        """The products, of shape (..., outputs) and x's dtype; ``plan`` is chosen if not given."""
        self._check(x, bias)
        vectors = x.detach().reshape(-1, self.inputs)
        vectors = vectors if vectors.stride(-1) == 1 else vectors.contiguous()
        y = vectors.new_empty(len(vectors), self.outputs)
        if y.numel():
            self._launch(vectors, y, bias, plan or self.plan(len(vectors)))
        return y.view(*x.shape[:-1], self.outputs)

    def plan(self, batch: int) -> Plan:
        """How that many vectors are best multiplied."""
        if batch > MOST_FEW:
            return ManyPlan(
                height=128 if batch > 64 else 64,
                columns=min(128, max(32, 1 << (batch - 1).bit_length())),
                warps=8 if batch > 64 else 4,
            )
        return self._few_plan(batch)

    def _few_plan(self, batch: int) -> FewPlan:
        """What was fastest on an H200, of the plans that ``bench.packed_gpu --sweep`` tries."""
        processors, can_overlap = _device(self.words.device)
        steps = math.ceil(self.inputs / INPUTS_OF_WARP)
        is_long, is_tall = steps > 8, self.outputs > 32 * processors
        if batch <= 8:
            most_warps = 4
            tiles = 2 if is_long and self.bits == 2 else 1
            loads = 8 if (is_long and self.bits == 1) or (is_tall and tiles < self.bits) else 16
        else:
            most_warps = 8
            tiles = 2 if is_tall else 1
            loads = 4 if is_long and self.bits == 1 else 8
        warps = min(most_warps, max(2, 1 << (steps - 1).bit_length()))
        return FewPlan(tiles=tiles, warps=warps, loads=loads, early=can_overlap)

    def _launch(self, x: Tensor, y: Tensor, bias: Tensor | None, plan: Plan) -> None:
        if isinstance(plan, FewPlan) and len(x) > MOST_FEW:
            raise ValueError(f"FewPlan is for up to {MOST_FEW} vectors, not {len(x)}; use ManyPlan")
        with _on_device(x):
            if isinstance(plan, FewPlan):
                self._launch_few(x, y, bias, plan)
            else:
                self._launch_many(x, y, bias, plan)

    def _launch_few(self, x: Tensor, y: Tensor, bias: Tensor | None, plan: FewPlan) -> None:
        columns = 8 if len(x) <= 8 else 16
        steps = math.ceil(self.inputs / (INPUTS_OF_WARP * plan.warps))
        span = min(steps, MOST_SPAN)
        ahead = max(1, min(16, plan.loads * 8 // columns) // self.bits)
        early = {"launch_pdl": True} if plan.early else {}
        multiply_few[(math.ceil(self.outputs / (16 * plan.tiles)),)](
            *self._arguments(x, y, bias), 1,
            BITS=self.bits, TILES=plan.tiles, COLUMNS=columns, WARPS=plan.warps,
            AHEAD=ahead, SPAN=span, LOOPED=steps > span,
            WHOLE=self.inputs % (INPUTS_OF_WARP * plan.warps * span) == 0,
            EARLY=plan.early, **self._constants(x, bias),
            num_warps=plan.warps, num_stages=1, enable_fp_fusion=True, **early,
        )  # fmt: skip

    def _launch_many(self, x: Tensor, y: Tensor, bias: Tensor | None, plan: ManyPlan) -> None:
        grid = (math.ceil(self.outputs / plan.height), math.ceil(len(x) / plan.columns))
        multiply_many[grid](
            *self._arguments(x, y, bias),
            BITS=self.bits, HEIGHT=plan.height, COLUMNS=plan.columns, **self._constants(x, bias),
            num_warps=plan.warps, num_stages=plan.stages, enable_fp_fusion=True,
        )  # fmt: skip

    def _arguments(self, x: Tensor, y: Tensor, bias: Tensor | None) -> tuple[Tensor | int, ...]:
        offset = self.scale if bias is None else bias.detach().contiguous()
        sizes = (len(x), self.outputs, self.inputs, self.words.shape[1], x.stride(0))
        return self.words, x, y, self.scale, offset, *sizes

    def _constants(self, x: Tensor, bias: Tensor | None) -> dict[str, bool]:
        return {
            "ROW_SCALES": self.scale.numel() > 1,
            "BIASED": bias is not None,
            "COMPILED": x.is_cuda,
        }

    def _check(self, x: Tensor, bias: Tensor | None) -> None:
        if x.dim() == 0 or x.shape[-1] != self.inputs:
            raise ValueError(
                f"PackedMatrix.multiply: x must end with {self.inputs} inputs, not {tuple(x.shape)}"
            )
        if x.dtype not in HALVES:
            raise ValueError(f"PackedMatrix.multiply: x must be bfloat16 or float16, not {x.dtype}")
        if bias is not None and bias.shape != (self.outputs,):
            raise ValueError(
                f"PackedMatrix.multiply: bias must have {self.outputs} entries, "
                f"not the shape {tuple(bias.shape)}"
            )
        for name, tensor in (("x", x), ("bias", bias)):
            if tensor is not None and tensor.device != self.words.device:
                raise ValueError(
                    f"PackedMatrix.multiply: {name} is on {tensor.device}, "
                    f"the weights are on {self.words.device}"
                )


def _check_codes(codes: Tensor, inputs: int, bits: int) -> None:
    if bits not in FIELDS:
        raise ValueError(f"PackedMatrix(bits={bits}): bits must be 1 or 2")
    if inputs < 1:
        raise ValueError(f"PackedMatrix(inputs={inputs}): a row must have at least one weight")
    row_bytes = math.ceil(inputs * bits / 8)
    if codes.dtype != torch.uint8 or codes.dim() != 2 or codes.shape[1] != row_bytes:
        raise ValueError(
            f"PackedMatrix: codes must be uint8 of shape (outputs, {row_bytes}) for {inputs} "
            f"weights of {bits} bits, not {codes.dtype} of shape {tuple(codes.shape)}"
        )


def _lay_out(codes: Tensor, inputs: int, bits: int) -> Tensor:
    """Words of 16 bits as the kernels read them: (rows / 8, blocks, 8, 32).

    Position s of word j in block b is the weight of input (b * 16 / bits + s) * 32 + j.
    """
    blocks = math.ceil(inputs * bits / INPUTS_OF_WARP)
    groups = math.ceil(len(codes) / ROWS)
    words = torch.zeros(groups, blocks, ROWS, WORDS, dtype=torch.int16, device=codes.device)
    for first in range(0, len(codes), ROWS_AT_ONCE):
        rows = _words_of_rows(codes[first : first + ROWS_AT_ONCE], inputs, bits, blocks)
        rows = torch.nn.functional.pad(rows, (0, 0, 0, 0, 0, -len(rows) % ROWS))
        here = slice(first // ROWS, first // ROWS + len(rows) // ROWS)
        words[here] = rows.view(-1, ROWS, blocks, WORDS).transpose(1, 2)
    return words


def _words_of_rows(codes: Tensor, inputs: int, bits: int, blocks: int) -> Tensor:
    """The same for a few rows: (rows, blocks, 32)."""
    shifts = torch.arange(0, 8, bits, dtype=torch.uint8, device=codes.device)
    unpacked = (codes[:, :, None] >> shifts) & (2**bits - 1)
    unpacked = unpacked.flatten(1)[:, :inputs].int()
    if bits == 2 and bool((unpacked == 3).any()):
        raise ValueError("PackedMatrix: codes hold a 3; those of 2 bits must be 0, 1 or 2")
    fields = torch.tensor(FIELDS[bits], dtype=torch.int32, device=codes.device)[unpacked]
    positions = 16 // bits
    fields = torch.nn.functional.pad(fields, (0, blocks * positions * WORDS - inputs))
    fields = fields.view(len(codes), blocks, positions, WORDS)
    places = torch.arange(0, 16, bits, dtype=torch.int32, device=codes.device)
    words = (fields << places[:, None]).sum(2)
    return torch.where(words < 0x8000, words, words - 0x10000).to(torch.int16)


def _on_device(x: Tensor) -> AbstractContextManager[None]:
    """Where Triton launches; it does not look where its arguments are."""
    if not x.is_cuda or x.device.index == torch.cuda.current_device():
        return nullcontext()
    return torch.cuda.device(x.device)


@cache
def _device(device: torch.device) -> tuple[int, bool]:
    """Its number of multiprocessors, and whether kernels can begin while others end."""
    if device.type != "cuda":
        return NUM_PROCESSORS, False
    properties = torch.cuda.get_device_properties(device)
    can_overlap = properties.major >= 9 and hasattr(tl.extra.cuda, "gdc_wait")
    return properties.multi_processor_count, can_overlap
