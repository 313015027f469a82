"""Refits the polynomials of GELU without erff, and prints what each form is good for in its dtype.

    python bench/fit_gelu.py

x * Phi(x) needs Phi only on the left, Phi(-a) for a >= 0, since Phi(x) = 1 - Phi(-x). There it falls as a Gaussian
does, so the Gaussian is taken by exp2 and the rest, which is smooth, by a polynomial (Abramowitz and Stegun 26.2 has
forms of this kind):

    float32   Phi(-a) = exp(-a^2/2) * q / (a + C),  q = polynomial in v = a / (a + C)
    16 bits   Phi(-a) = exp(-a^2/2) * t * polynomial in t = 1 / (1 + p a)

Each polynomial is the minimax one in relative error, found by linear programming on Chebyshev nodes. The bounds that
are printed come from the float32 arithmetic of the form, step by step, on every 16-bit input, or on a sample of
float32 inputs that misses no exponent, against float64.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.polynomial import chebyshev, polynomial
from scipy.optimize import linprog
from scipy.special import erfcx, ndtr

from cudalab import values
from cudalab.dtypes import DType, dtype
from cudalab.parity import compare
from cudalab.results import Parity
from cudalab.spec import Budget

F = np.float32
LOG2_E = 1.4426950408889634
C = 2.25
FAR = 14.5  # beyond it x * Phi(x) is below the smallest float32
NODES = 4000

Array = np.ndarray


def minimax(target: Callable[[Array], Array], low: float, high: float, degree: int) -> tuple[Array, float]:
    """Monomial coefficients c0, c1, ... of the polynomial of least relative error on [low, high], and that error."""
    k = np.arange(NODES)
    u = np.cos(np.pi * (k + 0.5) / NODES)
    x = (low + high) / 2 + (high - low) / 2 * u
    basis = chebyshev.chebvander(u, degree) / target(x)[:, None]
    first = np.linalg.lstsq(basis, np.ones(NODES), rcond=None)[0]
    residual = basis @ first - 1
    size = float(np.abs(residual).max())  # the program is about the last digits: in units of these
    ones = np.ones((NODES, 1))
    found = linprog(
        np.r_[np.zeros(degree + 1), 1.0],
        A_ub=np.block([[basis, -ones], [-basis, -ones]]),
        b_ub=np.r_[-residual, residual] / size,
        bounds=[(None, None)] * (degree + 1) + [(0, None)],
        method="highs",
    )
    if not found.success:
        raise SystemExit(f"no fit of degree {degree}: {found.message}")
    in_u = chebyshev.cheb2poly(first + size * found.x[:-1])
    scale, shift = 2 / (high - low), -(low + high) / (high - low)
    in_x = np.zeros(degree + 1)
    power = np.array([1.0])
    for c in in_u:
        in_x[: len(power)] += c * power
        power = polynomial.polymul(power, [shift, scale])
    return in_x, size * float(found.x[-1])


def fma(a: Array, b: Array | float, c: Array | float) -> Array:
    """a * b + c in float32 with one rounding; float64 holds the product exactly."""
    return F(np.float64(a) * np.float64(b) + np.float64(c))


def horner(c: Array, x: Array) -> Array:
    y = np.full_like(x, F(c[-1]))
    for k in reversed(c[:-1]):
        y = fma(y, x, F(k))
    return y


def exp2_of_half_square(a: Array, e2: Array) -> tuple[Array, Array]:
    """(f, k): exp(-a^2/2) = f * 2^k, with f from the polynomial `e2` and the square's rounding error made good."""
    high = F(LOG2_E / 2)
    low = F(LOG2_E / 2 - np.float64(high))
    s = a * a
    e = fma(a, a, -s)
    n = np.rint(-np.float64(s) * np.float64(high)).astype(F)
    f = fma(s, -high, -n)
    f = fma(e, -high, fma(s, -low, f))
    return horner(e2, f), n.astype(np.int32)


def wide(x: Array, q: Array, e2: Array) -> Array:
    """The float32 form of x * Phi(x), as a kernel would compute it."""
    a = np.minimum(np.abs(x), F(16))
    r = F(1) / (a + F(C))
    v = a * r
    v = fma(r, fma(-v, F(C), fma(-v, a, a)), v)  # a / (a + C) to the last place
    f, k = exp2_of_half_square(a, e2)
    # v * q = a * q / (a + C): the product with |x| is in it already
    half = k >> 1
    g = np.ldexp(f * (v * horner(q, v)), half)
    return fma(-g, np.ldexp(F(1), k - half), np.where(x > 0, x, x * F(0)))


def narrow(x: Array, c: Array, p: float) -> Array:
    """The form for 16 bits, in float32: exp2 is the hardware's, good to 2 ULP."""
    a = np.minimum(np.abs(x), F(16))
    t = F(1) / fma(a, F(p), F(1))
    left = np.exp2(a * a * F(-LOG2_E / 2)) * (t * horner(c, t))
    return fma(-a, left, np.where(x > 0, x, x * F(0)))


def judged(got: Array, x: Array, kind: DType) -> Parity:
    """As `cudalab check` judges it."""
    want = np.float64(x) * ndtr(np.float64(x))
    return compare(got.astype(kind.numpy), want, kind, Budget(4, why="shown, not judged"))


def exp2_polynomial() -> tuple[Array, float]:
    """Of degree 6 on [-1/2, 1/2]; with its relative error, as the next two."""
    return minimax(np.exp2, -0.5, 0.5, 6)


def wide_polynomial() -> tuple[Array, float]:
    """Of degree 10 in v = a / (a + C), for 0 <= a <= FAR."""

    def target(v: Array) -> Array:
        a = C * v / (1 - v)
        return (a + C) * erfcx(a / np.sqrt(2)) / 2

    return minimax(target, 0.0, FAR / (FAR + C), 10)


# By dtype: p, the degree, and the a beyond which the result rounds to zero.
NARROW = {"bfloat16": (0.3, 3, 14.0), "float16": (0.31, 5, 6.5)}


def narrow_polynomial(name: str) -> tuple[Array, float]:
    """In t = 1 / (1 + p a), as NARROW has it."""
    p, degree, far = NARROW[name]
    return minimax(lambda t: erfcx((1 / t - 1) / p / np.sqrt(2)) / 2 / t, 1 / (1 + p * far), 1.0, degree)


def main() -> None:
    with np.errstate(all="ignore"):
        e2, error = exp2_polynomial()
        print(f"exp2 on [-1/2, 1/2], degree 6: relative error {error:.2g}")
        show(e2)
        q, error = wide_polynomial()
        print(f"float32, C = {C}, degree 10: relative error {error:.2g}")
        show(q)
        x = values.sample(dtype("float32"), 2**24, 0).reshape(-1)
        print(f"  {said(judged(wide(x, q, e2), x, dtype('float32')))}")
        for name, (p, degree, _) in NARROW.items():
            c, error = narrow_polynomial(name)
            print(f"{name}, p = {p}, degree {degree}: relative error {error:.2g}")
            show(c)
            x = values.every(dtype(name)).reshape(-1).astype(F)
            print(f"  {said(judged(narrow(x, c, p), x, dtype(name)))}")


def said(parity: Parity) -> str:
    return f"largest error {parity.max_ulp:.3f} ULP, {parity.rounded:.2%} correctly rounded: {parity.worst}"


def show(coefficients: Array) -> None:
    print("  c0 ... " + ", ".join(f"{F(c):.9g}f" for c in coefficients))


if __name__ == "__main__":
    main()
