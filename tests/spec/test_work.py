"""The work of one run: all bytes, or what the spec says; and operations, where the spec counts them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cudalab.base.errors import SpecError
from cudalab.spec import find
from cudalab.spec.dtype import dtype
from cudalab.spec.work import Amount, amount, doubts

X = {"x": np.zeros(1000, np.float32)}


def with_(**fields):
    return replace(find.kernel("gelu"), **fields)


def test_all_inputs_and_the_output_are_moved_unless_the_spec_says_less():
    assert amount(with_(), X, 4000) == Amount(8000, 4000, 0)
    assert amount(with_(bytes=lambda x: x.nbytes // 4), X, 500) == Amount(1000, 500, 0)
    assert amount(with_(bytes=lambda x: np.int64(100)), X, 500) == Amount(100, 100, 0)


def test_fewer_bytes_than_the_outputs_have_are_noted():
    assert doubts(amount(with_(bytes=lambda x: 4000), X, 4000), 4000) == []
    (note,) = doubts(amount(with_(bytes=lambda x: 3999), X, 4000), 4000)
    assert note.startswith("the spec counts 3,999 bytes, fewer than its outputs have (4,000)")
    assert amount(with_(bytes=lambda x: 0), {"x": np.zeros(0, np.float32)}, 0).nbytes == 0


def test_the_operations_are_those_that_the_spec_counts():
    assert amount(with_(flops=lambda x: 20 * x.size), X, 4000).flops == 20000
    matmul = find.kernel("matmul")
    arrays = matmul.make((3, 5, 7), dtype("float32"))
    assert amount(matmul, arrays, 84) == Amount(4 * (15 + 35 + 21), 84, 2 * 3 * 5 * 7)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"bytes": lambda x: 1.5}, "bytes returns 1.5; return a whole number, 0 or more"),
        ({"bytes": lambda x: -1}, "bytes returns -1; return"),
        ({"bytes": lambda x: 0}, "bytes returns 0; count what must be moved, or leave bytes out to count all"),
        ({"bytes": lambda x: True}, "bytes returns True; return"),
        ({"flops": lambda x: x.size / 2}, "flops returns 500.0; return"),
        ({"flops": lambda x: 2**63}, "flops returns 9223372036854775808; return"),
        ({"flops": lambda x: None}, "flops returns None; return"),
        ({"bytes": lambda x: 8001}, "bytes returns 8,001, but inputs and output have 8,000; count each once"),
    ],
)
def test_what_is_no_count_is_refused(fields, said):
    with pytest.raises(SpecError, match=said):
        amount(with_(**fields), X, 4000)
