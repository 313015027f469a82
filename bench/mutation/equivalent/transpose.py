"""Why mutants of transpose survive."""

from mutation.equivalent.reasons import ELEMENTS, TWICE, UNUSED, lines

BANKS = "rows of the tile that begin at other banks of shared memory: slower or faster, with the same values"
FLAT = "blockIdx.z is above 0 where x has more than 65,535 tiles side by side; tests/test_kernels.py lowers that limit"
ASKED = "every tile asks where the sides of the matrix are, as those at its sides do; slower"

REASONS = {
    **lines("for (int k = 0; k < TILE; k += STEP) {", ("<", "<=", TWICE)),
    **lines("__shared__ scalar_t tile[TILE][TILE + 1];", ("+ 1", "+ 0", BANKS), ("+ 1", "+ 2", BANKS)),
    **lines(
        "const long long left = ((long long)blockIdx.z * gridDim.y + blockIdx.y) * SIDE;",
        ("blockIdx.z", "threadIdx.z", FLAT),
        ("z *", "z /", FLAT),
        ("gridDim.y", "blockDim.y", FLAT),
        ("gridDim.y", "gridDim.x", FLAT),
    ),
    **lines(
        "if (left >= cols) return;  // gridDim.z need not divide the columns of tiles",
        ("left >= cols", "false", FLAT),
    ),
    **lines("if (!aligned || cols % WIDTH != 0 || rows % WIDTH != 0)", ("cols %", "cols *", ELEMENTS)),
    **lines(
        "else if (top + PAIR * SIDE <= rows && left + SIDE <= cols) by_words<true>(x, y, rows, cols, top, left, tile);",
        ("(top +", "(rows +", ASKED),
    ),
    **lines("__shared__ Words tile[(64 + 1) * 64 / 4];", ("(64", "(65", UNUSED), ("* 64", "* 65", UNUSED)),
}
