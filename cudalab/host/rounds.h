// Finds threads that go round in circles, such as `do { grid.sync(); } while (!*flag);`: they pass a barrier again and
// again, and their variables and all memory are as at an earlier barrier. Only other threads can change that.
#pragma once
#include <stdint.h>
#include <string.h>

namespace cudalab {

// Arrays of the next launch, which a kernel may change; more of them or larger ones are not looked at.
struct reachable { const char* start; size_t bytes; };
inline reachable wanted_arrays[64];
inline unsigned wanted_array_count;  // 0: nothing is known of them

CUDALAB_UNWATCHED inline uint64_t digest_of(const char* at, size_t bytes, uint64_t sum) {
    uint64_t word = 0;
    for (; bytes >= 8; at += 8, bytes -= 8) memcpy(&word, at, 8), sum = (sum ^ word) * 0x9e3779b97f4a7c15ull, sum ^= sum >> 29;
    memcpy(&word, at, bytes);
    return (sum ^ word ^ bytes) * 0x9e3779b97f4a7c15ull;
}

// The barriers of a warp, a block or a grid.
class rounds {
public:
    // At a barrier. `threads` gives a digest of what the threads have, `memory` one of the memory that they can reach, which
    // takes longer. Returns whether both have come back, within the last few barriers.
    template <class Threads, class Memory> CUDALAB_UNWATCHED bool circling(Threads threads, Memory memory) {
        if (!stacks_have_ends || ++passed < first || !wanted_array_count) return false;
        if (!left) {
            if (passed & (passed - 1)) return false;
            kept = threads(), left = longest;
            return false;
        }
        --left;
        if (threads() == kept) {
            const uint64_t now = memory();
            if (!known) kept_memory = now, known = true;
            else if (now == kept_memory) found = true, left = longest;
        }
        if (!left) found = known = false;
        return found;
    }
    void begin() { *this = rounds{}; }

private:
    static constexpr unsigned first = 256, longest = 64;  // barriers before the first look, and between two equal states
    uint64_t passed = 0, kept = 0, kept_memory = 0;
    unsigned left = 0;
    bool known = false, found = false;
};

}  // namespace cudalab
