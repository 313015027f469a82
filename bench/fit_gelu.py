"""Refits the polynomials of GELU and of its derivative without erff, and prints the error of each form.

    python bench/fit_gelu.py            # float32 on a sample that misses no exponent: a minute
    python bench/fit_gelu.py --every    # float32 on every number that matters: some minutes

x * Phi(x) needs Phi only on the left, Phi(-a) for a >= 0, since Phi(x) = 1 - Phi(-x). There it falls as a Gaussian
does, so the Gaussian is taken by exp2 and the rest, which is smooth, by a polynomial (Abramowitz and Stegun 26.2 has
forms of this kind):

    float32   Phi(-a) = exp(-a^2/2) * q / (a + C),  q = polynomial in v = a / (a + C)
    16 bits   Phi(-a) = exp2(-SCALE * w)^2, w = polynomial in a, which needs no division

The derivative g(x) = Phi(x) + x phi(x) likewise is 1 - g(-x), and on the left g(-a) = exp(-a^2/2) * r(a), where r has a
zero A0 near 0.75. The fit is of r(a) / (A0 - a), so that g keeps its digits near A0 too:

    float32   r(a) / (A0 - a) = polynomial in v = a / (a + C), another C
    16 bits   g(-a) = (A0 - a) * exp2(-SCALE * w)^ORDER, w another one; a root, since the Gaussian underflows

Each polynomial is the minimax one in the relative error of what it makes (Phi by exp2: in ULP), found by linear
programming on Chebyshev nodes; in float32 its coefficients are rounded one after the other, and the remaining ones are
fitted again each time. Each C is the best of many candidates: its largest error over all of float32 is the smallest.

The bounds that are printed come from the float32 arithmetic of the form, step by step, on every 16-bit input, or on
float32 inputs, against float64; in float32 also with the reciprocal off by one ULP to either side, as a GPU's may be.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import numpy as np
from scipy.optimize import linprog
from scipy.special import erfcx, log_ndtr, ndtr

from cudalab.checks import hard_inputs
from cudalab.checks.parity import compare
from cudalab.results.record import Parity
from cudalab.spec.dtype import DType, dtype
from cudalab.spec.kernel import Budget

F = np.float32
LOG2_E = 1.4426950408889634
ROUNDER = F(1.5 * 2**23)  # added to a number, rounds it to a whole one
A0 = 0.7517915246935643  # Phi(-A0) = A0 phi(A0)
A0_HIGH = F(A0)
C, DEGREE, FAR = 2.4892578125, 9, 14.3  # beyond FAR x * Phi(x) is below the smallest float32
SLOPE_C, SLOPE_DEGREE, SLOPE_FAR = 3.6953125, 8, 20.0  # beyond it even the largest float32 times g(-a) is
NODES = 4000

Array = np.ndarray


def minimax(
    target: Callable[[Array], Array], low: float, high: float, degree: int,
    weight: Callable[[Array], Array] | None = None, fixed: dict[int, float] | None = None, nodes: int = NODES,
) -> tuple[Array, float]:  # fmt: skip
    """Coefficients c0, c1, ... of the polynomial of least relative error on [low, high], and that error.

    With a `weight` it is the error times the weight. Coefficients in `fixed` keep their values.
    """
    u = np.cos(np.pi * (np.arange(nodes) + 0.5) / nodes)
    x = (low + high) / 2 + (high - low) / 2 * u
    w = weight(x) if weight else 1 / target(x)
    c = np.array([(fixed or {}).get(k, np.nan) for k in range(degree + 1)])
    free = np.isnan(c)
    powers = np.vander(x, degree + 1, increasing=True) * w[:, None]
    wanted = target(x) * w - powers[:, ~free] @ c[~free]
    if not free.any():
        return c, float(np.abs(wanted).max())
    first = np.linalg.lstsq(powers[:, free], wanted, rcond=None)[0]
    residual = powers[:, free] @ first - wanted
    size = float(np.abs(residual).max())  # the program is about the last digits: in units of these
    basis, back = np.linalg.qr(powers[:, free])
    ones = np.ones((nodes, 1))
    found = linprog(
        np.r_[np.zeros(free.sum()), 1.0],
        A_ub=np.block([[basis, -ones], [-basis, -ones]]),
        b_ub=np.r_[-residual, residual] / size,
        bounds=[(None, None)] * free.sum() + [(0, None)],
        method="highs",
    )
    if not found.success:
        raise SystemExit(f"no fit of degree {degree}: {found.message}")
    c[free] = first + size * np.linalg.solve(back, found.x[:-1])
    return c, size * float(found.x[-1])


def rounded(
    target: Callable[[Array], Array], low: float, high: float, degree: int, fixed: dict[int, float] | None = None
) -> tuple[Array, float]:
    """As minimax, with coefficients of float32: c0 is rounded, the others are fitted again, and so on."""
    fixed = dict(fixed or {})
    for k in range(degree + 1):
        if k not in fixed:
            fixed[k] = float(F(minimax(target, low, high, degree, fixed=fixed, nodes=800)[0][k]))
    return minimax(target, low, high, degree, fixed=fixed)


def fma(a: Array, b: Array | float, c: Array | float) -> Array:
    """a * b + c in float32 with one rounding; float64 holds the product exactly."""
    return F(np.float64(a) * np.float64(b) + np.float64(c))


def horner(c: Array, x: Array) -> Array:
    y = np.full_like(x, F(c[-1]))
    for k in reversed(c[:-1]):
        y = fma(y, x, F(k))
    return y


def reciprocal(x: Array, off: int) -> Array:
    """1 / x, `off` ULP from where it should be: what MUFU.RCP may give."""
    return ((F(1) / x).view(np.int32) + np.int32(off)).view(F)


def share(a: Array, c: float, off: int) -> Array:
    """v = a / (a + c), with a step of Newton's against the error of the reciprocal."""
    d = a + F(c)
    r = reciprocal(d, off)
    v = a * r
    return fma(r, fma(-v, d, a), v)


def unit() -> float:
    """The number of 12 bits for which unit * log2(e)/2 is nearest to one of float32.

    In this unit the fraction of the exponent needs no second term of log2(e)/2, and the whole part of it, below 2^12,
    is still exact.
    """
    tried = np.arange(2**11, 2**12) / 2**11
    off = np.abs(F(tried * (LOG2_E / 2)) / (tried * (LOG2_E / 2)) - 1)
    return float(tried[np.argmin(off)])


UNIT = unit()


def exponent(a: Array) -> tuple[Array, Array]:
    """(f, n), n whole and |f / UNIT| <= 1/2: exp(-a^2/2) = 2^(f / UNIT + n)."""
    half, half_unit = F(LOG2_E / 2), F(UNIT * LOG2_E / 2)
    s = a * a
    n = fma(s, -half, ROUNDER) - ROUNDER
    f = fma(fma(a, a, -s), -half_unit, fma(s, -half_unit, -n * F(UNIT)))
    return f, n.astype(np.int32)


def wide(x: Array, q: Array, e: Array, off: int = 0) -> Array:
    """The float32 form of x * Phi(x), as kernels/gelu.cu computes it; e[0] is 1."""
    a = np.minimum(np.abs(x), F(16))
    v = share(a, C, off)
    f, n = exponent(a)
    t = np.ldexp(horner(q, v), n)
    return fma(-v, fma(t, horner(e[1:], f) * f, t), np.where(x > 0, x, x * F(0)))


def slope(a: Array) -> Array:
    """r(a) / (A0 - a) in float64, a >= 0; near A0 by the derivative r' = a M - 2 phi(0), M = r + a phi(0)."""
    mills = lambda a: erfcx(a / np.sqrt(2)) / 2  # noqa: E731 (used twice, here alone)
    phi0, d = 1 / np.sqrt(2 * np.pi), A0 - a
    middle = (a + A0) / 2
    near = np.abs(d) < 1e-5
    return np.where(near, 2 * phi0 - middle * mills(middle), (mills(a) - a * phi0) / np.where(near, 1.0, d))


def wide_slope(x: Array, c: Array, e: Array, off: int = 0) -> Array:
    """The float32 form of g, as kernels/gelu_backward.cu has it (which multiplies by dy before the powers of two)."""
    a = np.minimum(np.abs(x), F(SLOPE_FAR))
    r = np.where(np.abs(x) > F(38.6), F(0), horner(c, share(a, SLOPE_C, off)))
    f, n = exponent(a)
    grown = horner(e[1:], f) * f
    high = fma(r, grown, r)
    low, distance = fma(r, grown, r - high), A0_HIGH - np.abs(x)
    g = fma(high, distance, fma(high, F(A0 - np.float64(A0_HIGH)), low * distance))
    left = np.ldexp(g, n)
    return np.where(x > 0, F(1) - left, left)


def root(w: Array, a: Array, scale: float) -> Array:
    """exp2(-scale * w(a)), w held to [0, 1]; NaN counts as 0."""
    return np.exp2(-F(scale) * np.fmin(np.fmax(horner(w, a), F(0)), F(1)))


def narrow(x: Array, w: Array) -> Array:
    """The form of x * Phi(x) for 16 bits, in float32: the polynomial rises without bound, so that Phi(-inf) is 0."""
    half = root(w, np.abs(x), SCALE)
    return x * np.abs(fma(-half, half, np.where(x > 0, F(1), F(0))))


def narrow_slope(x: Array, w: Array, order: int, scale: float) -> Array:
    """The form of g for 16 bits, in float32; it is 0 where g(-a) in float64 is 0.

    A0 is rounded to float32: this costs 0.15 ULP at the float16 next to -A0, for some dy, and nothing elsewhere.
    """
    a = np.abs(x)
    part = np.where(a > F(38.6), F(0), root(w, a, scale))
    left = part ** (order - 1) * (part * (A0_HIGH - a))
    return np.where(x > 0, F(1) - left, left)


def gelu(x: Array) -> Array:
    return x * ndtr(x)


def derivative(x: Array) -> Array:
    return ndtr(x) + x * np.exp(-x * x / 2) / np.sqrt(2 * np.pi)


def judged(got: Array, x: Array, kind: DType, of: Callable[[Array], Array] = gelu) -> Parity:
    """Compare `got` with the float64 result as `cudalab check` does."""
    want = of(np.float64(x))
    return compare(got.astype(kind.numpy), want, kind, Budget(4, why="shown, not judged"))


def exp2_polynomial() -> tuple[Array, float]:
    """exp2 on [-1/2, 1/2], degree 6; this and the next three functions also return the relative error."""
    return minimax(np.exp2, -0.5, 0.5, 6)


def exp2_unit_polynomial() -> tuple[Array, float]:
    """exp2(f / UNIT), which begins with exactly 1."""
    return rounded(lambda f: np.exp2(f / UNIT), -UNIT / 2, UNIT / 2, 6, {0: 1.0})


def wide_polynomial() -> tuple[Array, float]:
    """q in v = a / (a + C), for 0 <= a <= FAR."""

    def target(v: Array) -> Array:
        a = C * v / (1 - v)
        return (a + C) * erfcx(a / np.sqrt(2)) / 2

    return rounded(target, 0.0, FAR / (FAR + C), DEGREE)


def slope_polynomial() -> tuple[Array, float]:
    """In v = a / (a + SLOPE_C), for 0 <= a <= SLOPE_FAR."""
    far = SLOPE_FAR / (SLOPE_FAR + SLOPE_C)
    return rounded(lambda v: slope(SLOPE_C * v / (1 - v)), 0.0, far, SLOPE_DEGREE)


# By dtype: the degree, and the a beyond which the result rounds to zero. The degree is odd, so that a polynomial which
# falls as far as a goes on does so beyond it.
LOG = {"bfloat16": (7, 14.0), "float16": (5, 6.5)}
SCALE = 100.0
# For the derivative: also the order of the root and the scale. Largest dy times 2^-(order * scale) has to vanish.
LOG_SLOPE = {"bfloat16": (9, 19.0, 3, 100.0), "float16": (7, 7.0, 2, 70.0)}


def log_polynomial(name: str) -> tuple[Array, float]:
    """w = -log2(Phi(-a)) / (2 * SCALE) in a, with the error in ULP of a * Phi(-a).

    The error is 1/1000 of the relative error where that is larger.
    """
    degree, far = LOG[name]

    def weight(a: Array) -> Array:
        y = a * ndtr(-a)
        return np.log(2) * np.maximum(y / dtype(name).ulp(y), 1e-3)

    c, error = minimax(lambda a: log_ndtr(-a) / np.log(2), 0.0, far, degree, weight)
    return -c / (2 * SCALE), error


def log_slope_polynomial(name: str) -> tuple[Array, float]:
    """w = -log2(exp(-a^2/2) r(a) / (A0 - a)) / (order * scale) in a; the error is relative, of what exp2 makes."""
    degree, far, order, scale = LOG_SLOPE[name]
    target = lambda a: np.log2(slope(a)) - LOG2_E / 2 * a * a  # noqa: E731
    c, error = minimax(target, 0.0, far, degree, lambda a: np.full_like(a, np.log(2)))
    return -c / (order * scale), error


def sample() -> Iterator[Array]:
    yield hard_inputs.sample(dtype("float32"), 2**24, 0).reshape(-1)


def every() -> Iterator[Array]:
    """All of float32 from 2^-8 to 20 and from -20 to -2^-8; a smaller number behaves like one of these."""
    low, high = (int(F(x).view(np.int32)) for x in (2.0**-8, 20.0))
    for start in range(low, high, 2**20):
        a = np.arange(start, min(start + 2**20, high), dtype=np.int32).view(F)
        yield a
        yield -a


def worst(form: Callable[[Array], Array], of: Callable[[Array], Array], inputs: Iterator[Array]) -> Parity:
    kind = dtype("float32")
    return max((judged(form(x), x, kind, of) for x in inputs), key=lambda parity: parity.max_ulp)


def main() -> None:
    inputs = every if "--every" in sys.argv[1:] else sample
    with np.errstate(all="ignore"):
        e, error = exp2_polynomial()
        print(f"exp2 on [-1/2, 1/2], degree 6: relative error {error:.2g}")
        show(e)
        e, error = exp2_unit_polynomial()
        print(f"exp2(f / UNIT), UNIT = {UNIT:.9g}f, UNIT * log2(e)/2 = {F(UNIT * LOG2_E / 2):.9g}f: error {error:.2g}")
        show(e)
        q, error = wide_polynomial()
        print(f"float32, C = {C:.9g}f, degree {DEGREE}: relative error {error:.2g}")
        show(q)
        for off in (-1, 0, 1):
            print(f"  {said(worst(lambda x, off=off: wide(x, q, e, off), gelu, inputs()))}, reciprocal {off:+} ULP")
        c, error = slope_polynomial()
        print(f"derivative, A0 = {A0_HIGH:.9g}f + {F(A0 - np.float64(A0_HIGH)):.9g}f")
        print(f"derivative, float32, C = {SLOPE_C:.9g}f, degree {SLOPE_DEGREE}: relative error {error:.2g}")
        show(c)
        for off in (-1, 0, 1):
            found = worst(lambda x, off=off: wide_slope(x, c, e, off), derivative, inputs())
            print(f"  {said(found)}, reciprocal {off:+} ULP")
        show_logs()


def show_logs() -> None:
    for name in LOG:
        x = hard_inputs.every(dtype(name)).reshape(-1).astype(F)
        degree, far = LOG[name]
        w, error = log_polynomial(name)
        print(f"{name}, exp2(-{SCALE:.0f} w)^2, a <= {far}, degree {degree}: error {error:.2g} ULP")
        show(w)
        print(f"  {said(judged(narrow(x, w), x, dtype(name)))}")
        degree, far, order, scale = LOG_SLOPE[name]
        w, error = log_slope_polynomial(name)
        form = f"exp2(-{scale:.0f} w)^{order}"
        print(f"derivative, {name}, {form}, a <= {far}, degree {degree}: relative error {error:.2g}")
        show(w)
        print(f"  {said(judged(narrow_slope(x, w, order, scale), x, dtype(name), derivative))}")


def said(parity: Parity) -> str:
    return f"largest error {parity.max_ulp:.3f} ULP, {parity.rounded:.2%} correctly rounded: {parity.worst}"


def show(coefficients: Array) -> None:
    print("  c0 ... " + ", ".join(f"{F(c):.9g}f" for c in coefficients))


if __name__ == "__main__":
    main()
