import itertools

import pytest
import torch

from binaryrelax.quantizers import Binary, Levels, Ternary, Uniform
from binaryrelax_lab.studies.theory.lines_of_q import canonical_codes, code_vectors

SETS = [Binary(), Ternary(), Uniform(bits=3), Levels((1, 3))]


def directions_by_search(quantizer, num_weights):
    """Every line of Q once, as a unit vector whose first number is positive."""
    found = set()
    for codes in itertools.product(quantizer.codebook, repeat=num_weights):
        unit = torch.tensor(codes, dtype=torch.float64)
        if unit.any():
            unit = unit / unit.norm() * unit[unit != 0][0].sign()
            found.add(tuple((unit.round(decimals=9) + 0.0).tolist()))
    return found


@pytest.mark.parametrize("quantizer", SETS, ids=repr)
@pytest.mark.parametrize("num_weights", [1, 2, 3])
def test_every_line_is_listed_once(quantizer, num_weights):
    codes = code_vectors(quantizer, num_weights)
    units = codes / codes.norm(dim=1, keepdim=True)
    listed = [tuple((unit.round(decimals=9) + 0.0).tolist()) for unit in units]
    assert len(set(listed)) == len(listed)
    assert set(listed) == directions_by_search(quantizer, num_weights)


def test_numbers_of_lines():
    assert len(code_vectors(Binary(), 10)) == 2**9
    assert len(code_vectors(Ternary(), 6)) == (3**6 - 1) // 2
    assert len(code_vectors(Ternary(), 2)) == 4  # Figure 1


def test_points_of_a_line_have_the_same_canonical_codes():
    quantizer = Uniform(bits=3)
    codes = code_vectors(quantizer, 3)
    for scale in (0.3, -2.0, 1e-30):
        assert torch.equal(canonical_codes(scale * codes), canonical_codes(codes))
    assert len(canonical_codes(codes).unique(dim=0)) == len(codes)


def test_codes_are_the_smallest_of_their_line():
    codes = code_vectors(Uniform(bits=3), 2)
    assert [1.0, 1.0] in codes.tolist() and [3.0, 3.0] not in codes.tolist()
    assert {abs(code) for row in codes.tolist() for code in row} == {0.0, 1.0, 2.0, 3.0}


def test_too_many_lines_are_refused():
    with pytest.raises(ValueError, match=r"3\^20 codes are too many to list"):
        code_vectors(Ternary(), 20)
