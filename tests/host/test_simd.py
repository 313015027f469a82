"""Integer functions of the CPU executor beside their definitions: integers in a word, dot products, atomics."""

from __future__ import annotations

import numpy as np
import pytest
from on_cpu import run

CU, N = "narrow_integers.cu", 5000


@pytest.fixture(scope="module")
def words():
    """Three arrays of words, with bytes at and beside the ends of their range."""
    rng = np.random.default_rng(0)
    edges = np.array([0, 1, 2, 126, 127, 128, 129, 254, 255], np.uint8)
    found = [np.where(rng.random((N, 4)) < 0.5, rng.choice(edges, (N, 4)), rng.integers(0, 256, (N, 4))) for _ in "abc"]
    return [one.astype(np.uint8).reshape(-1).view(np.uint32).copy() for one in found]


def lanes(word, n, signed):
    return word.view(np.dtype(f"{'i' if signed else 'u'}{4 // n}")).reshape(N, n).astype(np.int64)


def joined(values, n):
    return values.astype(np.dtype(f"i{4 // n}")).reshape(-1).view(np.uint32)


def clipped(values, n, signed):
    bits = 32 // n
    return np.clip(values, -(1 << bits - 1) if signed else 0, (1 << bits - signed) - 1)


# By name: whether lanes are signed, and the result of a lane.
LANES = {
    "abs": (True, lambda a, b, n: abs(a)), "absss": (True, lambda a, b, n: clipped(abs(a), n, True)),
    "neg": (True, lambda a, b, n: -a), "negss": (True, lambda a, b, n: clipped(-a, n, True)),
    "add": (False, lambda a, b, n: a + b), "addss": (True, lambda a, b, n: clipped(a + b, n, True)),
    "addus": (False, lambda a, b, n: clipped(a + b, n, False)), "sub": (False, lambda a, b, n: a - b),
    "subss": (True, lambda a, b, n: clipped(a - b, n, True)),
    "subus": (False, lambda a, b, n: clipped(a - b, n, False)),
    "absdiffs": (True, lambda a, b, n: abs(a - b)), "absdiffu": (False, lambda a, b, n: abs(a - b)),
    "avgs": (True, lambda a, b, n: np.sign(a + b) * ((abs(a + b) + 1) // 2)),  # halves go away from zero
    "avgu": (False, lambda a, b, n: (a + b + 1) // 2), "haddu": (False, lambda a, b, n: (a + b) // 2),
    "maxs": (True, lambda a, b, n: np.maximum(a, b)), "maxu": (False, lambda a, b, n: np.maximum(a, b)),
    "mins": (True, lambda a, b, n: np.minimum(a, b)), "minu": (False, lambda a, b, n: np.minimum(a, b)),
}  # fmt: skip
TESTS = {
    "eq": np.equal, "ne": np.not_equal, "ge": np.greater_equal, "gt": np.greater, "le": np.less_equal, "lt": np.less,
}  # fmt: skip


def launched(module, name, words):
    y = np.zeros(N, np.uint32)
    run(module, f"t__v{name}", -(-N // 256), 256, y, *words[:2], np.int32(N))
    return y


@pytest.mark.parametrize("n", [2, 4])
def test_every_function_of_lanes(module, words, n):
    for name, (signed, of) in LANES.items():
        a, b = (lanes(word, n, signed) for word in words[:2])
        np.testing.assert_array_equal(launched(module, f"{name}{n}", words), joined(of(a, b, n), n), name)
    for name, of in TESTS.items():
        for sign in ("",) if name in ("eq", "ne") else ("s", "u"):
            holds = of(*(lanes(word, n, sign == "s") for word in words[:2]))
            np.testing.assert_array_equal(launched(module, f"cmp{name}{sign}{n}", words), joined(-1 * holds, n), name)
            np.testing.assert_array_equal(launched(module, f"set{name}{sign}{n}", words), joined(1 * holds, n), name)
    for sign in "su":
        a, b = (lanes(word, n, sign == "s") for word in words[:2])
        np.testing.assert_array_equal(launched(module, f"sad{sign}{n}", words), abs(a - b).sum(1).astype(np.uint32))


def test_every_entry_of_the_file_is_tested(module):
    known = {f"t__v{name}{n}" for name in LANES for n in (2, 4)}
    signs = {name: ("",) if name in ("eq", "ne") else ("s", "u") for name in TESTS}
    known |= {f"t__v{of}{t}{s}{n}" for of in ("cmp", "set") for t in TESTS for s in signs[t] for n in (2, 4)}
    known |= {f"t__vsad{sign}{n}" for sign in "su" for n in (2, 4)}
    assert known | {"scalars", "vectors"} == set(module.entries)


def nth_set(mask, base, offset):
    """__fns by its definition."""
    at = [i for i in (range(base, 32) if offset >= 0 else range(base, -1, -1)) if mask >> i & 1]
    if offset == 0:
        return base if mask >> base & 1 else 0xFFFFFFFF
    return at[abs(offset) - 1] if len(at) >= abs(offset) else 0xFFFFFFFF


def test_functions_of_whole_words(module, words):
    y = np.zeros((N, 14), np.uint32)
    run(module, "scalars", -(-N // 256), 256, y, *words, np.int32(N))
    a, b, c = words
    wrapped = lambda values: values.astype(np.uint64).astype(np.uint32)  # noqa: E731
    signed, plain = [word.view(np.int32).astype(np.int64) for word in words], [word.astype(np.int64) for word in words]
    for column, (half, of) in enumerate([(0, True), (1, True), (0, False), (1, False)]):
        products = lanes(a, 2, of) * lanes(b, 4, of)[:, 2 * half : 2 * half + 2]
        np.testing.assert_array_equal(y[:, column], wrapped(plain[2] + products.sum(1)))
    for column, of in ((4, True), (5, False)):
        np.testing.assert_array_equal(y[:, column], wrapped(plain[2] + (lanes(a, 4, of) * lanes(b, 4, of)).sum(1)))
    np.testing.assert_array_equal(y[:, 6], wrapped((plain[0] + plain[1] + 1) // 2))
    np.testing.assert_array_equal(y[:, 7], wrapped((signed[0] + signed[1] + 1) // 2))
    p, q, r = (lanes(word, 2, True) for word in words)
    total = (p + q).astype(np.int16).astype(np.int64)
    np.testing.assert_array_equal(y[:, 8], joined(np.maximum(np.maximum(total, r), 0), 2))
    np.testing.assert_array_equal(y[:, 9], joined(np.min([lanes(word, 2, False) for word in words], axis=0), 2))
    total = (signed[0] + signed[1]).astype(np.int32)
    np.testing.assert_array_equal(y[:, 10].view(np.int32), np.minimum(total, signed[2]))
    np.testing.assert_array_equal(y[:, 11], joined(np.maximum(p, q), 2))
    np.testing.assert_array_equal(y[:, 12], (p >= q) @ [1, 2])
    found = [nth_set(int(m), int(s) % 32, int(o) % 9 - 4) for m, s, o in zip(a, b, c, strict=True)]
    np.testing.assert_array_equal(y[:, 13], np.array(found, np.uint32))


def test_atomics_on_vectors_and_two_bytes(module):
    word = np.array([0, 77], np.uint16)
    y2, y4 = np.zeros(4, np.float32)[:2], np.zeros(8, np.float32)
    y4 = y4[(-y4.ctypes.data % 16) // 4 :][:4]
    run(module, "vectors", 10, 64, y2, y4, word)
    assert (y2.tolist(), y4.tolist(), word.tolist()) == ([640, 1280], [640, 1280, 1920, 2560], [1920, 77])
