"""Why mutants of add2d survive."""

from mutation.equivalent.reasons import LONGER, PACKS, aligned, lines

SQUARE = "the launch has square blocks: blockDim.x and blockDim.y are the same number"

REASONS = {
    **LONGER,
    **PACKS,
    **lines("const long long col = (long long)blockIdx.x * blockDim.x + threadIdx.x;", ("Dim.x", "Dim.y", SQUARE)),
    **lines("const long long step = (long long)gridDim.y * blockDim.y;", ("blockDim.y", "blockDim.x", SQUARE)),
    **lines(
        "for (long long row = (long long)blockIdx.y * blockDim.y + threadIdx.y; row < rows; row += step)",
        ("blockDim.y", "blockDim.x", SQUARE),
    ),
    **aligned("const bool aligned = (((size_t)a | (size_t)b | (size_t)y) % sizeof(Pack)) == 0;"),
}
