"""Why mutants of add2d survive."""

from mutation.equivalent.reasons import ALIGNED_16, ELEMENTS, LONGER, PACKS, lines

SQUARE = "the launch has square blocks: blockDim.x and blockDim.y are the same number"

REASONS = {
    **LONGER,
    **PACKS,
    **lines("const unsigned col = blockIdx.x * blockDim.x + threadIdx.x;", ("Dim.x", "Dim.y", SQUARE)),
    **lines(
        "const unsigned row = (blockIdx.z * gridDim.y + blockIdx.y) * blockDim.y + threadIdx.y;",
        ("blockDim.y", "blockDim.x", SQUARE),
    ),
    **lines("if (aligned && first + Pack::width <= n) {", ("first", "n", ELEMENTS)),
    **ALIGNED_16,
}
