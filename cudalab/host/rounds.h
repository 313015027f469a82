// Finds threads that go round in circles, such as `do { grid.sync(); } while (!*flag);`: they pass a barrier again and
// again, and their variables and all memory are as at earlier barriers. Only other threads can change that, as long as the
// digests hold all that the threads can read. So there is no search where a source has more (source.py, closed), in a
// shuffled order, whose next numbers are in no digest, or where an argument holds the address of other memory.
#pragma once
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

namespace cudalab {

// Arrays of the next launch, which a kernel may change, and its large scalars; Python names none where there are too many.
struct reachable {
    const char* start;
    size_t bytes;
};
inline reachable wanted_arrays[256];
inline unsigned wanted_array_count;  // 0: nothing is known of them

CUDALAB_UNWATCHED inline uint64_t digest_of(const char* at, size_t bytes, uint64_t sum) {
    uint64_t word = 0;
    for (; bytes >= 8; at += 8, bytes -= 8) memcpy(&word, at, 8), sum = (sum ^ word) * 0x9e3779b97f4a7c15ull, sum ^= sum >> 29;
    memcpy(&word, at, bytes);
    return (sum ^ word ^ bytes) * 0x9e3779b97f4a7c15ull;
}

// Whether there is an address of other memory in the arrays. A number that looks like one counts, too.
CUDALAB_UNWATCHED inline bool lead_elsewhere() {
    for (unsigned i = 0; i < wanted_array_count; ++i)
        for (size_t at = 0; at + 8 <= wanted_arrays[i].bytes; at += 4) {
            uintptr_t word;
            memcpy(&word, wanted_arrays[i].start + at, 8);
            if (word < 1 << 16 || word >> 47) continue;
            bool known = false;
            for (unsigned j = 0; j < wanted_array_count; ++j)
                known |= word - uintptr_t(wanted_arrays[j].start) < wanted_arrays[j].bytes;
            if (!known && !msync(reinterpret_cast<void*>(word & ~uintptr_t(4095)), 1, MS_ASYNC)) return true;
        }
    return false;
}

// The barriers of a warp, a block or a grid.
class rounds {
public:
    // At a barrier. `threads` gives a digest of what the threads have, `memory` one of the memory that they can reach, which
    // takes longer. Returns whether both have come back within the last few barriers: twice, since the blocks of a gang run in
    // another order every other time.
    template <class Threads, class Memory> CUDALAB_UNWATCHED bool circling(Threads threads, Memory memory) {
        if (!stacks_have_ends || !looked_for || ++passed < first || !wanted_array_count) return false;
        if (!left) {
            if (passed & (passed - 1)) return false;
            kept = threads(), left = longest;
            return false;
        }
        --left;
        if (threads() == kept) {
            const uint64_t now = memory();
            if (!equal) kept_memory = now, equal = 1;
            else if (now == kept_memory && ++equal >= 3) {
                if (!found && lead_elsewhere()) return looked_for = false;
                found = true, left = longest;
            }
        }
        if (!left) found = false, equal = 0;
        return found;
    }
    void begin(bool look) { *this = rounds{}, looked_for = look; }

private:
    static constexpr unsigned first = 256, longest = 192;  // barriers before the first look, and of a look
    uint64_t passed = 0, kept = 0, kept_memory = 0;
    unsigned left = 0, equal = 0;
    bool looked_for = false, found = false;
};

}  // namespace cudalab
