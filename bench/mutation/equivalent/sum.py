"""Why mutants of sum survive."""

from mutation.equivalent.reasons import UNUSED, lines

ORDER = "a fence orders what other multiprocessors see; on the CPU the counter's atomic addition orders everything"
NOTHING = "a thread for which top is n has an inner loop that ends at once"
ONE_BY_ONE = "one element fewer than a pack is left: it is taken one by one, as a part of the head or of the tail"
BEYOND = "the first loop has ended because the last of UNROLL packs is beyond the end: so the bound below it says no"

UNREAD = "thread 0 alone uses the sum of a block: what other warps return is not read"

REASONS = {
    **lines("__shared__ float partial[32];", ("32", "33", UNUSED)),
    **lines("if (warp > 0) return 0.0f;", ("> 0", "> 1", UNREAD)),
    **lines("#define MOST_BLOCKS 2048", ("2048", "2049", UNUSED)),
    **lines("Pack pack[UNROLL - 1] = {};", ("- 1", "- 0", UNUSED)),
    **lines("for (long long top = threadIdx.x; top < n; top += 1024LL * blockDim.x) {", ("<", "<=", NOTHING)),
    **lines("for (int u = 0; u < UNROLL - 1; ++u)", ("<", "<=", BEYOND)),
    **lines(
        "__threadfence();  // and what others have entered is not read before the counter",
        ("__threadfence();", ";", ORDER),
    ),
    **lines(
        "const long long head = missing < n ? missing : n, packs = (n - head) / Pack::width;",
        ("< n", "< n - 1", ONE_BY_ONE),
    ),
}
