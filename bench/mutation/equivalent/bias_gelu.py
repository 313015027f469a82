"""Why mutants of bias_gelu survive."""

from mutation.equivalent.reasons import ALIGNED, LONGER, PHI, PHI_16, POSITIVE, SLOPE, TWICE, lines, within

FEW = (
    "of 2^17 rows and more, with fewer packs than a thread has rows; "
    "tests/kernels/test_kernels.py gives several to each of 7"
)
DEEP = "of a grid with blocks in z, for more than 65,535 rows; tests/kernels/test_kernels.py makes the grid small"
SINGLY = "all elements go one by one, to the same values; slower"
LAST = "rows that end where the matrix does go element by element, as those after them; slower"
HUGE = "only for sums beyond 10^7, whose rounding error overflows when squared; tests/kernels/test_kernels.py has such"

REASONS = {
    **PHI_16,
    **POSITIVE,
    **SLOPE,
    **lines("if (a < 16.0f) s_low = fmaf(z + z, lost(x, bias, z), s_low);", ("<", "<=", HUGE)),
    **lines("return fmaf(w, a, 0.00500369165f);", ("0.00500369165f", "0.00500869534165f", within(0.8)), file=PHI),
    **LONGER,
    **lines(
        "const unsigned top = ((blockIdx.z * gridDim.y + blockIdx.y) * blockDim.y + threadIdx.y) * each;",
        ("gridDim.y", "blockDim.y", DEEP),
    ),
    **lines(
        "const bool aligned = (((size_t)x | (size_t)bias | (size_t)y) % sizeof(Pack)) == 0 && cols % Pack::width == 0;",
        ("y) %", "y) *", ALIGNED),
        ("== 0 &&", "== 1 &&", ALIGNED),
        ("== 0 &&", "== (-1) &&", ALIGNED),
    ),
    **lines(
        "if (aligned && top < tall && each <= tall - top) {",
        ("aligned && top < tall && each <= tall - top", "false", SINGLY),
        ("<=", "<", LAST),
        ("tall - top", "tall - tall", SINGLY),
        ("each <=", "stride <=", FEW),
    ),
    **lines(
        "const long long above = (((long long)blockIdx.z * gridDim.y + blockIdx.y) * blockDim.y + threadIdx.y) * each;",
        ("blockIdx.z", "threadIdx.z", DEEP),
        ("z * gridDim", "z / gridDim", DEEP),
    ),
    **lines(
        "for (long long col = left + threadIdx.x; col < cols && col < right; col += blockDim.x)",
        ("col < right", "col <= right", TWICE),
    ),
}
