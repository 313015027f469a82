"""Why mutants of transpose survive."""

from mutation.equivalent.reasons import ALIGNED, ELEMENTS, TWICE, UNUSED, lines

BANKS = "rows of the tile that begin at other banks of shared memory: slower or faster, with the same values"
FLAT = (
    "blockIdx.z is above 0 where x has more than 65,535 tiles side by side; "
    "tests/kernels/test_kernels.py lowers that limit"
)
ASKED = "every tile tests the matrix's bounds, as the tiles at its edges do; slower"

SHARE = "a warp takes the pieces of a tile in another order; all warps together take the same pieces"
WHOLE = "rows and columns are multiples of a pack here, and so is where a pack begins: none begins at the last element"
LOOPS = "the loop's own bound is below it: no thread has an element beyond"
NOTHING = "nothing is loaded or stored there, since every access tests the bound"

REASONS = {
    **lines(
        "static constexpr int BESIDE = ACROSS < 8 ? ACROSS : 8;",
        ("ACROSS < 8", "true", SHARE),
    ),
    **lines(
        "return (pack * WIDTH + k) * GROUPS + (group ^ pack * PAIR % GROUPS);",
        ("^ pack", "^ k", BANKS),
        ("pack * PAIR", "pack / PAIR", BANKS),
    ),
    **lines("if (whole || (row + s * DOWN * PAIR < rows && col < cols))", ("col < cols", "col < cols - 1", WHOLE)),
    **lines(
        "if (whole || (top + group * WIDTH < rows && left + c + s * ROWS < cols))", ("< rows", "< rows - 1", WHOLE)
    ),
    **lines("const int wide = cols - left < SIDE ? cols - left : SIDE;", ("cols - left < SIDE", "true", LOOPS)),
    **lines(
        "const int high = rows <= top ? 0 : rows - top < SIDE ? rows - top : SIDE;",
        ("rows - top < SIDE", "true", LOOPS),
    ),
    **lines(
        "for (int square = 0; square < PAIR; ++square, top += SIDE, x += (size_t)SIDE * cols, y += SIDE) {",
        ("<", "<=", TWICE),
    ),
    **lines("for (int r = threadIdx.x / SIDE; r < SIDE; r += 4 * step) {", ("r < SIDE", "r < SIDE - 1", LOOPS)),
    **lines("for (int r = threadIdx.x / SIDE; r < SIDE; r += step)", ("<", "<=", NOTHING)),
    **lines("for (int k = 0; k < TILE; k += STEP) {", ("<", "<=", TWICE)),
    **lines("__shared__ scalar_t tile[TILE][TILE + 1];", ("+ 1", "+ 0", BANKS), ("+ 1", "+ 2", BANKS)),
    **lines(
        "__device__ __forceinline__ unsigned left_of(unsigned side) "
        "{ return (blockIdx.z * gridDim.y + blockIdx.y) * side; }",
        ("blockIdx.z", "threadIdx.z", FLAT),
        ("z *", "z /", FLAT),
        ("gridDim.y", "blockDim.y", FLAT),
        ("gridDim.y", "gridDim.x", FLAT),
    ),
    **lines(
        "if (left >= cols) return;",
        ("left >= cols", "false", FLAT),
        (">=", ">", NOTHING),
    ),
    **lines(
        "const bool aligned = (((size_t)x | (size_t)y) % sizeof(Words)) == 0;",
        ("%", "*", ALIGNED),
        ("== 0", "== (-1)", ALIGNED),
        ("== 0", "== 1", ALIGNED),
    ),
    **lines(
        "if (!aligned || cols % WIDTH != 0 || rows % WIDTH != 0)",
        ("cols %", "cols *", ELEMENTS),
        ("rows %", "rows *", ELEMENTS),
        ("!aligned || cols % WIDTH != 0 || rows % WIDTH != 0", "true", ELEMENTS),
        ("cols % WIDTH != 0", "cols % WIDTH != (-1)", ELEMENTS),
        ("rows % WIDTH != 0", "rows % WIDTH != (-1)", ELEMENTS),
    ),
    **lines(
        "else if (top + PAIR * SIDE <= rows && left + SIDE <= cols) by_words<true>(x, y, rows, cols, top, left, tile);",
        ("top + PAIR * SIDE <= rows && left + SIDE <= cols", "false", ASKED),
        ("SIDE <= rows", "SIDE < rows", ASKED),
        ("<= rows", "<= rows - 1", ASKED),
        ("SIDE <= cols", "SIDE < cols", ASKED),
        ("<= cols", "<= cols - 1", ASKED),
    ),
    **lines(
        "__shared__ Words tile[(64 + 1) * 64 / 4];",
        ("(64", "(65", UNUSED),
        ("* 64", "* 65", UNUSED),
        ("+ 1", "+ 2", UNUSED),
        ("/ 4", "* 4", UNUSED),
        ("/ 4", "/ 3", UNUSED),
    ),
}
