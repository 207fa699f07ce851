import pytest
import torch
from hypothesis import given, strategies as st

from binaryrelax.packed.bits import (
    MAX_BITS,
    bytes_per_row,
    pack_bits,
    pack_trits,
    trit_bytes_per_row,
    unpack_bits,
    unpack_trits,
)

ROW_LENGTHS = st.one_of(st.sampled_from([0, 1, 2, 4, 5, 7, 8, 9, 15, 16, 17]), st.integers(0, 40))


@st.composite
def rows_of_codes(draw: st.DrawFn, num_codes: int) -> list[list[int]]:
    length, num_rows = draw(ROW_LENGTHS), draw(st.integers(0, 4))
    row = st.lists(st.integers(0, num_codes - 1), min_size=length, max_size=length)
    return [draw(row) for _ in range(num_rows)]


def tensor(rows: list[list[int]]) -> torch.Tensor:
    length = len(rows[0]) if rows else 0
    return torch.tensor(rows, dtype=torch.int64).reshape(len(rows), length)


def row_by_hand(row: list[int], bits: int) -> bytes:
    """One long number, codes from its least significant end."""
    number = sum(code << (bits * place) for place, code in enumerate(row))
    return number.to_bytes((len(row) * bits + 7) // 8, "little")


def trits_by_hand(row: list[int]) -> bytes:
    fives = [row[start : start + 5] for start in range(0, len(row), 5)]
    return bytes(sum(code * 3**place for place, code in enumerate(five)) for five in fives)


@pytest.mark.parametrize("bits", range(1, MAX_BITS + 1))
@given(data=st.data())
def test_bits_are_those_of_plain_python_and_come_back(bits, data):
    rows = data.draw(rows_of_codes(2**bits))
    codes = tensor(rows)
    packed = pack_bits(codes, bits)
    assert packed.dtype == torch.uint8
    assert packed.shape == (len(rows), bytes_per_row(codes.shape[1], bits))
    assert [bytes(row) for row in packed.tolist()] == [row_by_hand(row, bits) for row in rows]
    assert torch.equal(unpack_bits(packed, codes.shape[1], bits).long(), codes)


@given(rows=rows_of_codes(3))
def test_trits_are_those_of_plain_python_and_come_back(rows):
    codes = tensor(rows)
    packed = pack_trits(codes)
    assert packed.dtype == torch.uint8
    assert packed.shape == (len(rows), trit_bytes_per_row(codes.shape[1]))
    assert [bytes(row) for row in packed.tolist()] == [trits_by_hand(row) for row in rows]
    assert torch.equal(unpack_trits(packed, codes.shape[1]).long(), codes)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32, torch.int64])
def test_codes_of_any_whole_dtype_and_stride_pack_alike(dtype):
    codes = torch.tensor([[0, 1, 2], [2, 1, 0]])
    assert torch.equal(pack_bits(codes.to(dtype), 2), pack_bits(codes, 2))
    assert torch.equal(pack_trits(codes.to(dtype)), pack_trits(codes))
    transposed = codes.t().contiguous().t().to(dtype)
    assert torch.equal(pack_bits(transposed, 2), pack_bits(codes, 2))
    assert torch.equal(pack_trits(transposed), pack_trits(codes))


def test_nine_signs_take_two_bytes_with_bit_one_for_plus_one_and_the_first_in_the_lowest_bit():
    signs = torch.tensor([[1, -1, -1, -1, -1, -1, 1, 1, 1]])
    assert pack_bits((signs + 1) // 2, 1).tolist() == [[0b11000001, 0b00000001]]


def test_ternary_codes_are_q_plus_one_four_to_a_byte_the_first_in_the_lowest_bits():
    levels = torch.tensor([[-1, 0, 1, -1, 1]])
    assert pack_bits(levels + 1, 2).tolist() == [[0b00_10_01_00, 0b00_00_00_10]]


def test_trits_are_five_to_a_byte_the_first_counting_ones():
    levels = torch.tensor([[-1, 0, 1, -1, 1, 1]])
    assert pack_trits(levels + 1).tolist() == [[0 + 1 * 3 + 2 * 9 + 0 * 27 + 2 * 81, 2]]


def test_codes_of_three_and_nine_bits_cross_the_borders_of_bytes():
    assert pack_bits(torch.tensor([[1, 2, 7, 4]]), 3).tolist() == [[0b11_010_001, 0b0000_100_1]]
    assert pack_bits(torch.tensor([[0b1_0000_0011, 1]]), 9).tolist() == [[3, 0b0000001_1, 0]]


def test_every_byte_comes_back_from_its_bits_and_the_first_243_from_their_trits():
    every_byte = torch.arange(256, dtype=torch.uint8).unsqueeze(1)
    for bits in (1, 2, 4, 8):
        assert torch.equal(pack_bits(unpack_bits(every_byte, 8 // bits, bits), bits), every_byte)
    trit_bytes = every_byte[:243]
    assert torch.equal(pack_trits(unpack_trits(trit_bytes, 5)), trit_bytes)
    assert not (pack_trits(unpack_trits(every_byte[243:], 5)) == every_byte[243:]).any()
