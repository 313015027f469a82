"""Refits the polynomials of GELU and of its derivative without erff, and prints what each form is good for.

    python bench/fit_gelu.py

x * Phi(x) needs Phi only on the left, Phi(-a) for a >= 0, since Phi(x) = 1 - Phi(-x). There it falls as a Gaussian
does, so the Gaussian is taken by exp2 and the rest, which is smooth, by a polynomial (Abramowitz and Stegun 26.2 has
forms of this kind):

    float32   Phi(-a) = exp(-a^2/2) * q / (a + C),  q = polynomial in v = a / (a + C)
    16 bits   Phi(-a) = exp2(polynomial in a), which needs no division

The derivative g(x) = Phi(x) + x phi(x) likewise is 1 - g(-x), and on the left g(-a) = exp(-a^2/2) * r(a), where r has a
zero A0 near 0.75. What is fitted is r(a) / (A0 - a), so that g keeps its digits there too:

    float32   r(a) / (A0 - a) = polynomial in t = 1 / (1 + p a)
    16 bits   g(-a) = (A0 - a) * exp2(polynomial in a)^2; the square, since the Gaussian itself underflows

Each polynomial is the minimax one in the relative error of what it makes (Phi by exp2: in ULP), found by linear
programming on Chebyshev nodes. The bounds that are printed come from the float32 arithmetic of the form, step by step,
on every 16-bit input, or on a sample of float32 inputs that misses no exponent, against float64.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.polynomial import chebyshev, polynomial
from scipy.optimize import linprog
from scipy.special import erfcx, log_ndtr, ndtr

from cudalab import values
from cudalab.dtypes import DType, dtype
from cudalab.parity import compare
from cudalab.results import Parity
from cudalab.spec import Budget

F = np.float32
LOG2_E = 1.4426950408889634
C = 2.25
FAR = 14.5  # beyond it x * Phi(x) is below the smallest float32
A0 = 0.7517915246935643  # Phi(-A0) = A0 phi(A0)
SLOPE_FAR = 20.0  # beyond it even the largest float32 times g(-a) is below the smallest
NODES = 4000

Array = np.ndarray


def minimax(
    target: Callable[[Array], Array], low: float, high: float, degree: int,
    weight: Callable[[Array], Array] | None = None,
) -> tuple[Array, float]:  # fmt: skip
    """Monomial coefficients c0, c1, ... of the polynomial of least relative error on [low, high], and that error.

    With a `weight` it is the error times the weight.
    """
    k = np.arange(NODES)
    u = np.cos(np.pi * (k + 0.5) / NODES)
    x = (low + high) / 2 + (high - low) / 2 * u
    w = weight(x) if weight else 1 / target(x)
    basis, wanted = chebyshev.chebvander(u, degree) * w[:, None], target(x) * w
    first = np.linalg.lstsq(basis, wanted, rcond=None)[0]
    residual = basis @ first - wanted
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
    in_u = chebyshev.Chebyshev(first + size * found.x[:-1], domain=[low, high])
    return in_u.convert(kind=polynomial.Polynomial).coef, size * float(found.x[-1])


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
    f, n = split_exponent(a)
    return horner(e2, f), n


def split_exponent(a: Array) -> tuple[Array, Array]:
    """(f, n), n whole and |f| <= 1/2: exp(-a^2/2) = 2^(f + n)."""
    high = F(LOG2_E / 2)
    low = F(LOG2_E / 2 - np.float64(high))
    s = a * a
    e = fma(a, a, -s)
    n = np.rint(-np.float64(s) * np.float64(high)).astype(F)
    f = fma(s, -high, -n)
    return fma(e, -high, fma(s, -low, f)), n.astype(np.int32)


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


def slope(a: Array) -> Array:
    """r(a) / (A0 - a) in float64, a >= 0; near A0 by the derivative r' = a M - 2 phi(0), M = r + a phi(0)."""
    mills = lambda a: erfcx(a / np.sqrt(2)) / 2  # noqa: E731 (used twice, here alone)
    phi0, d = 1 / np.sqrt(2 * np.pi), A0 - a
    middle = (a + A0) / 2
    near = np.abs(d) < 1e-5
    return np.where(near, 2 * phi0 - middle * mills(middle), (mills(a) - a * phi0) / np.where(near, 1.0, d))


def wide_slope(x: Array, c: Array, p: float, e2: Array) -> Array:
    """The float32 form of g, as a kernel would compute it (which multiplies by dy before the last powers of two)."""
    a = np.minimum(np.abs(x), F(SLOPE_FAR))
    t = F(1) / fma(a, F(p), F(1))
    f, k = split_exponent(a)
    m = away(a) * horner(c, t)
    left = np.ldexp(fma(m, f * horner(e2[1:], f), m), k)  # e2[0] is 1
    return fma(x, F(0), np.where(x > 0, F(1) - left, left))


def narrow_slope(x: Array, c: Array, far: float) -> Array:
    """The form of g for 16 bits, in float32."""
    a = np.minimum(np.abs(x), F(far))
    e = np.exp2(horner(c, a))
    m = e * away(a)
    return fma(x, F(0), np.where(x > 0, fma(-m, e, F(1)), e * m))


def away(a: Array) -> Array:
    """A0 - a; the first difference is exact near A0."""
    return (F(A0) - a) + F(A0 - np.float64(F(A0)))


def gelu(x: Array) -> Array:
    return x * ndtr(x)


def derivative(x: Array) -> Array:
    return ndtr(x) + x * np.exp(-x * x / 2) / np.sqrt(2 * np.pi)


def narrow(x: Array, c: Array) -> Array:
    """The form for 16 bits, in float32: the polynomial falls without bound, so that Phi(-inf) is 0."""
    tail = np.exp2(horner(c, np.abs(x)))
    return x * np.abs(np.where(x > 0, F(1), F(0)) - tail)


def judged(got: Array, x: Array, kind: DType, of: Callable[[Array], Array] = gelu) -> Parity:
    """As `cudalab check` judges it."""
    want = of(np.float64(x))
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


SLOPE = (0.35, 9)  # of float32: p and the degree


def slope_polynomial() -> tuple[Array, float]:
    """In t = 1 / (1 + p a), for 0 <= a <= SLOPE_FAR."""
    p, degree = SLOPE
    return minimax(lambda t: slope((1 / t - 1) / p), 1 / (1 + p * SLOPE_FAR), 1.0, degree)


# By dtype: the degree, and the a beyond which the result rounds to zero; of the derivative, times the largest dy.
LOG = {"bfloat16": (7, 14.0), "float16": (7, 6.5)}
LOG_SLOPE = {"bfloat16": (9, SLOPE_FAR), "float16": (8, 8.0)}


def log_polynomial(name: str) -> tuple[Array, float]:
    """log2 Phi(-a) in a. The error is in ULP of a * Phi(-a), or 1/1000 of a relative error where that is larger."""
    degree, far = LOG[name]

    def weight(a: Array) -> Array:
        y = a * ndtr(-a)
        return np.log(2) * np.maximum(y / dtype(name).ulp(y), 1e-3)

    return minimax(lambda a: log_ndtr(-a) / np.log(2), 0.0, far, degree, weight)


def log_slope_polynomial(name: str) -> tuple[Array, float]:
    """Half of log2 of exp(-a^2/2) r(a) / (A0 - a), in a."""
    degree, far = LOG_SLOPE[name]
    target = lambda a: (np.log2(slope(a)) - LOG2_E / 2 * a * a) / 2  # noqa: E731
    return minimax(target, 0.0, far, degree, lambda a: np.full_like(a, 2 * np.log(2)))


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
        show_logs()
        show_slopes(e2)


def show_slopes(e2: Array) -> None:
    a0, (p, degree) = F(A0), SLOPE
    print(f"derivative, A0 = {a0:.9g}f + {F(A0 - np.float64(a0)):.9g}f")
    c, error = slope_polynomial()
    print(f"derivative, float32, p = {p}, degree {degree}: relative error {error:.2g}")
    show(c)
    x = values.sample(dtype("float32"), 2**24, 0).reshape(-1)
    print(f"  {said(judged(wide_slope(x, c, p, e2), x, dtype('float32'), derivative))}")


def show_logs() -> None:
    for name in LOG:
        x = values.every(dtype(name)).reshape(-1).astype(F)
        c, error = log_polynomial(name)
        print(f"{name}, exp2 of a polynomial, a <= {LOG[name][1]}, degree {LOG[name][0]}: error {error:.2g} ULP")
        show(c)
        print(f"  {said(judged(narrow(x, c), x, dtype(name)))}")
        degree, far = LOG_SLOPE[name]
        c, error = log_slope_polynomial(name)
        print(f"derivative, {name}, exp2 of a polynomial, a <= {far}, degree {degree}: relative error {error:.2g}")
        show(c)
        print(f"  {said(judged(narrow_slope(x, c, far), x, dtype(name), derivative))}")


def said(parity: Parity) -> str:
    return f"largest error {parity.max_ulp:.3f} ULP, {parity.rounded:.2%} correctly rounded: {parity.worst}"


def show(coefficients: Array) -> None:
    print("  c0 ... " + ", ".join(f"{F(c):.9g}f" for c in coefficients))


if __name__ == "__main__":
    main()
