"""cuRAND's device API on the CPU executor: the bits of its generators, and its distributions."""

from __future__ import annotations

import numpy as np
import pytest
from on_cpu import run

CU = "random.cu"
# Known answers of Random123 (kat_vectors, philox4x32 with 10 rounds): counter, key, result.
KNOWN = (
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
)


def drawn(module, entry, n, seed=0, sequence=0, offset=0, skip=0):
    y = np.zeros(n, np.uint32)
    numbers = [np.uint64(v) for v in (seed, sequence, offset, skip)]
    run(module, entry, 1, 1, y, *numbers, np.int32(n))
    return y


def philox(counter, key):
    """Philox4x32-10 in Python's integers, as Salmon et al. define it."""
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k[0], b & 0xFFFFFFFF, a >> 32 ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def words(n, count):
    return [n >> 32 * i & 0xFFFFFFFF for i in range(count)]


def test_philox_gives_the_published_answers(module):
    counter, key, answer = (np.array(column, np.uint32) for column in zip(*KNOWN, strict=True))
    y = np.zeros((3, 4), np.uint32)
    run(module, "block_of", 1, 3, y, counter, key)
    np.testing.assert_array_equal(y, answer)
    assert [philox(c, k) for c, k, _ in KNOWN] == answer.tolist()


@pytest.mark.parametrize(
    ("seed", "sequence", "offset", "skip"),
    [(0, 0, 0, 0), (1234, 5, 7, 0), (2**63 + 1, 2**40, 2**33 + 2, 3), (9, 2**64 - 1, 2**64 - 1, 6)],
)
def test_philox_counts_offset_and_subsequence_as_documented(module, seed, sequence, offset, skip):
    found = drawn(module, "philox", 11, seed, sequence, offset, skip)
    first = offset + skip
    wanted = []
    for i in range(first, first + 11):
        counter = (i // 4) + (sequence << 64)
        wanted.append(philox(words(counter % 2**128, 4), words(seed, 2))[i % 4])
    np.testing.assert_array_equal(found, np.array(wanted, np.uint32))


def test_philox_one_and_four_numbers_in_turn(module):
    y = np.zeros(6, np.uint32)
    run(module, "mixed", 1, 1, y)
    np.testing.assert_array_equal(y, drawn(module, "philox", 6, 7, 3, 1))


def test_xorwow_steps_as_published_and_jumps_as_it_steps(module):
    """Marsaglia's recurrence on the numbers without their Weyl sequence; a jump is as many steps."""
    y = drawn(module, "xorwow", 3000, seed=42)
    weyl = (np.arange(3000, dtype=np.uint64) * 362437).astype(np.uint32)
    low, high = 42 ^ 0xAAD26B49, 0xF7DCEFDD
    d = (6615241 + 2591861531 * high + 1099087573 * low + 362437) & 0xFFFFFFFF
    v = (y - weyl - np.uint32(d)).astype(np.uint32)
    t = v[:-5] ^ v[:-5] >> 2
    np.testing.assert_array_equal(v[5:], v[4:-1] ^ v[4:-1] << 4 ^ t ^ t << 1)
    for n in (1, 2, 63, 64, 1000):
        np.testing.assert_array_equal(drawn(module, "xorwow", 9, 42, 0, n), y[n : n + 9])
        np.testing.assert_array_equal(drawn(module, "xorwow", 9, 42, 0, 0, n), y[n : n + 9])
    far = drawn(module, "xorwow", 9, 42, 0, 2**63, 2**63)  # 2^64 steps
    assert (far != y[:9]).all()
    apart = [tuple(drawn(module, "xorwow", 4, 42, sequence)) for sequence in range(4)]
    assert len(set(apart)) == 4 and apart[0] == tuple(y[:4])


def test_distributions(module):
    n = 20_000
    uniform, normal = np.zeros((n, 4), np.float32), np.zeros((n, 4), np.float32)
    wide, log_normal = np.zeros((n, 4)), np.zeros(n, np.float32)
    run(module, "distributions", -(-n // 256), 256, uniform, normal, wide, log_normal, np.int32(n))
    every = np.concatenate([uniform, wide[:, :2]], axis=1)
    assert every.min() > 0 and every.max() <= 1
    np.testing.assert_allclose(every.mean(0), 0.5, atol=0.01)
    np.testing.assert_allclose(every.var(0), 1 / 12, atol=0.003)
    every = np.concatenate([normal, wide[:, 2:], (np.log(log_normal[:, None]) - 0.5) / 0.25], axis=1)
    np.testing.assert_allclose(every.mean(0), 0, atol=0.03)
    np.testing.assert_allclose(every.var(0), 1, atol=0.05)
    np.testing.assert_allclose((every**4).mean(0), 3, atol=0.3)
    assert abs(np.corrcoef(normal[:, 1], normal[:, 2])[0, 1]) < 0.03
    bits = np.array([philox([0, 0, i, 0], [99, 0]) for i in range(64)], np.float64)
    np.testing.assert_array_equal(uniform[:64, :2], (bits[:, :2].astype(np.float32) + 0.5) * np.float32(2.0**-32))
