"""Why mutants of bias_gelu survive."""

from mutation.equivalent.reasons import ALIGNED, LONGER, ZERO, exp2, lines, within

TALL = "of a matrix with more than 524,280 rows: seconds for each check; tests/test_kernels.py makes the grid small"
DEEP = "of a grid with blocks in z, for more than 65,535 rows; tests/test_kernels.py makes the grid small"
SINGLY = "all elements go one by one, to the same values; slower"
LAST = "rows that end where the matrix does go element by element, as those after them; slower"
NEWTON = (
    "on the host, whose fast division is exact, it moves y by less than the budget of 5 leaves; a GPU's is 1 ULP off"
)
VANISHES = "beyond 15 y is z or 0 to all digits, whatever the sum has lost"
FINITE = VANISHES + ", but for an infinite z: F.gelu on a CPU makes NaN of it, so it is in tests/test_kernels.py alone"

EXACT = "where z is 0 nothing of the sum is lost, and either sign is that of a 0"
BEFORE = "the factor is the float32 number before: half a ULP of the result, within the budget of 5"

REASONS = {
    **lines("return x * fabsf(fmaf(-root, root, x > 0.0f ? 1.0f : 0.0f));", ("x >", "x >=", ZERO)),
    **lines("float w = 1.65309007e-06f;", ("1.65309007e-06f", "1.65474316007e-06f", within(0.82))),
    **lines(
        "return fabsf(z) < 16.0f ? (z > 0.0f ? low : -low) : 0.0f;",
        ("fabsf(z) < 16.0f", "true", FINITE),
        ("16.0f", "16.0f - 1", VANISHES),
        ("z > 0.0f", "z >= 0.0f", EXACT),
        (": 0.0f", ": 0.001f", VANISHES),
    ),
    **lines(
        "for (long long row = (long long)blockIdx.y * blockDim.y + threadIdx.y; row < rows; row += step)",
        ("+= step", "+= 2 * (step)", TALL),
    ),
    **lines(
        "q *= __uint_as_float((__float_as_uint(shifted) << 23) + 0x5F800000u);", ("0x5F800000u", "0x5f7fffffu", BEFORE)
    ),
    **exp2(", since a sum that begins with 1 would be rounded once more"),
    **lines("return times_phi(z, fmaf(w, a, 0.00500369165f));", ("0.00500369165f", "0.00500869534165f", within(0.8))),
    **lines("v = fmaf(r, fmaf(-v, d, a) + low, v);", ("v = fmaf(r, fmaf(-v, d, a) + low, v);", ";", NEWTON)),
    **lines("const long long step = (long long)gridDim.y * blockDim.y;", ("gridDim.y", "gridDim.x", TALL)),
    **LONGER,
    **lines(
        "const unsigned top = ((blockIdx.z * gridDim.y + blockIdx.y) * blockDim.y + threadIdx.y) * each;",
        ("gridDim.y", "blockDim.y", DEEP),
    ),
    **lines(
        "const bool aligned = (((size_t)x | (size_t)bias | (size_t)y) % sizeof(Pack)) == 0 && cols % Pack::width == 0;",
        ("y) %", "y) *", ALIGNED),
        ("== 0 &&", "== 1 &&", ALIGNED),
    ),
    **lines(
        "if (aligned && top < tall && each <= tall - top) {",
        ("aligned && top < tall && each <= tall - top", "false", SINGLY),
        ("<=", "<", LAST),
        ("tall - top", "tall - tall", SINGLY),
    ),
    **lines(
        "const long long above = (((long long)blockIdx.z * gridDim.y + blockIdx.y) * blockDim.y + threadIdx.y) * each;",
        ("blockIdx.z", "threadIdx.z", DEEP),
        ("z * gridDim", "z / gridDim", DEEP),
    ),
}
