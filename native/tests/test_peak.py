"""The int8 peak of a core: a wall that kernels are measured against."""

import binaryrelax_native as native
import pytest


@pytest.mark.parametrize("instruction_set", native.instruction_sets())
def test_peak_is_what_a_core_can_do(instruction_set):
    assert 1e8 < native.int8_peak(instruction_set) < 1e14


def test_instructions_for_products_of_bytes_raise_the_peak():
    sets = native.instruction_sets()
    peaks = {name: max(native.int8_peak(name) for _ in range(3)) for name in (sets[0], sets[-1])}
    assert len(sets) == 1 or peaks[sets[-1]] > 2 * peaks["portable"]
    assert native.int8_peak() > 0.3 * peaks[sets[-1]]  # the best set; others may share the core


def test_an_instruction_set_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="instruction_set='mmx': this CPU runs portable"):
        native.int8_peak("mmx")
