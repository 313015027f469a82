"""Why mutants of sum survive."""

from mutation.equivalent.reasons import LONGER, UNUSED, lines

ORDER = "a fence orders writes for other multiprocessors; on the CPU the counter's atomic addition orders all writes"
NOTHING = "a thread for which top is n has an inner loop that ends at once"
ONE_BY_ONE = "one element fewer than a pack is left: it is taken one by one, as a part of the head or of the tail"
BEYOND = "the first loop ends when the last of UNROLL packs is beyond the end, so the bound below it is false"

AGAIN = "the only block that adds twice has a barrier of its own between the two sums"
SIZES = "256, 512 or 1,024 threads give as many warps, or one more where all 32 lanes have one"
STEPS = "a thread goes by steps of a block, and the last of 1,024 ends well before"
ONE_STEP = "a sum in one step has larger roundings, which are within the budget at these sizes"
ROOM = "tests/kernels/test_kernels.py asks whether the table has room for every launch"
ALL = "blocks that are not the last write too: on the CPU they end one after the other, and the last one writes last"
DEPTH = "more or fewer loads under way: the same terms in another order; slower"

UNREAD = "only thread 0 uses the sum of a block: the results of other warps are not read"

REASONS = {
    **lines("__shared__ float partial[32];", ("32", "33", UNUSED)),
    **lines(
        "const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;",
        ("blockDim.x / 32", "blockDim.x / 31", SIZES),
    ),
    **lines("__syncthreads();", ("__syncthreads();", ";", AGAIN)),
    **lines(
        "if (warp > 0) return 0.0f;",
        ("> 0", "> 1", UNREAD),
        ("warp > 0", "false", UNREAD),
        ("0.0f", "0.001f", UNREAD),
        ("0.0f", "value", UNREAD),
    ),
    **lines(
        "for (long long i = top; i < n && i < top + 1024LL * blockDim.x; i += blockDim.x) part += float(x[i]);",
        ("1024LL * blockDim.x;", "1024LL * blockDim.x - 1;", STEPS),
        ("part +=", "sum +=", ONE_STEP),
    ),
    **lines("#define MOST_BLOCKS 2048", ("2048", "2049", UNUSED), ("2048", "2047", ROOM)),
    **lines("__threadfence();", ("__threadfence();", ";", ORDER)),
    **lines("__threadfence();", ("__threadfence();", ";", ORDER), nth=1),
    **lines("if (!last) return;", ("!last", "false", ALL)),
    **LONGER,
    **lines(
        "#define UNROLL 8",
        ("8", "7", DEPTH),
        ("8", "9", DEPTH),
    ),
    **lines("Pack pack[UNROLL - 1] = {};", ("- 1", "- 0", UNUSED), ("- 1", "+ 1", UNUSED)),
    **lines("for (long long top = threadIdx.x; top < n; top += 1024LL * blockDim.x) {", ("<", "<=", NOTHING)),
    **lines(
        "for (int u = 0; u < UNROLL - 1; ++u)", ("<", "<=", BEYOND), ("- 1", "- 0", BEYOND), ("- 1", "+ 1", BEYOND)
    ),
    **lines(
        "const long long head = missing < n ? missing : n, packs = (n - head) / Pack::width;",
        ("< n", "< n - 1", ONE_BY_ONE),
        ("< n", "<= n", "the smaller of two equal numbers"),
    ),
}
