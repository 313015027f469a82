// Warp operations: __syncwarp, shuffles, votes, matches, reductions. In each of them the lanes in `mask` meet once;
// then every lane sees what the others offered and computes its own result.
#pragma once

namespace cudalab {

// `matrix` comes last: operations of include/mma.h at different lines are different ones.
enum operation : unsigned { sync = activemask_operation + 1, shuffle, vote, match, reduce, matrix };

// What the runtime does (warp_meeting.h): before a thread waits for the others, and with what each of them brought.
fiber& coming(operation what, unsigned mask, uint64_t offer, const char* file, unsigned line);
unsigned those_present();
uint64_t brought_by(unsigned lane);
unsigned own_lane();

// Returns the lanes that took part: those of `mask` that exist and have not returned from the kernel.
inline unsigned meet(operation what, unsigned mask, uint64_t offer, const char* file, unsigned line) {
    running->leave(coming(what, mask, offer, file, line));
    return those_present();
}

// From which lane a shuffle takes its value: from one of its number, or of that number in the segment; from one so many
// lanes away; from the one whose number differs in these bits. The warp is split into segments of `width` lanes; beyond
// its segment a lane gets its own value.
enum class source { lane, of_segment, below, above, across };
fiber& shuffling(source kind, unsigned by, unsigned width, unsigned mask, uint64_t offer, const char* file, unsigned line);
uint64_t shuffled_bits();

template <class T> inline uint64_t packed(T value) {
    static_assert(sizeof(T) <= 8, "a warp operation moves at most 8 bytes per lane");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    return bits;
}
template <class T> inline T unpacked(uint64_t bits) {
    T value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

template <class T>
inline T shuffled(source kind, unsigned mask, T value, unsigned by, int width, const char* file, unsigned line) {
    running->leave(shuffling(kind, by, unsigned(width), mask, packed(value), file, line));
    return unpacked<T>(shuffled_bits());
}

template <class Combine> inline unsigned reduced(unsigned mask, unsigned value, Combine combine, const char* file, unsigned line) {
    const unsigned present = meet(reduce, mask, value, file, line);
    unsigned result = value;
    for (unsigned lane = 0; lane < 32; ++lane)
        if ((present >> lane & 1) && lane != own_lane()) result = combine(result, unsigned(brought_by(lane)));
    return result;
}

}  // namespace cudalab

inline void __syncwarp(unsigned mask = 0xffffffffu, CUDALAB_PLACE) { cudalab::meet(cudalab::sync, mask, 0, file, line); }

// The lanes that are at this call now, without those that wait elsewhere in the warp.
inline unsigned __activemask(CUDALAB_PLACE) {
    return cudalab::meet(cudalab::operation(cudalab::activemask_operation), 0xffffffffu, 0, file, line);
}

// ---- shuffles -------------------------------------------------------------------------------------------------------
#define CUDALAB_SHUFFLE(name, kind, type)                                                                    \
    template <class T> inline T name(unsigned mask, T value, type by, int width = 32, CUDALAB_PLACE) {       \
        return cudalab::shuffled(cudalab::source::kind, mask, value, unsigned(by), width, file, line);       \
    }
CUDALAB_SHUFFLE(__shfl_sync, of_segment, int)
CUDALAB_SHUFFLE(__shfl_up_sync, below, unsigned)
CUDALAB_SHUFFLE(__shfl_down_sync, above, unsigned)
CUDALAB_SHUFFLE(__shfl_xor_sync, across, int)
#undef CUDALAB_SHUFFLE

// ---- votes ----------------------------------------------------------------------------------------------------------
inline unsigned __ballot_sync(unsigned mask, int predicate, CUDALAB_PLACE) {
    const unsigned present = cudalab::meet(cudalab::vote, mask, predicate != 0, file, line);
    unsigned yes = 0;
    for (unsigned lane = 0; lane < 32; ++lane)
        if ((present >> lane & 1) && cudalab::brought_by(lane)) yes |= 1u << lane;
    return yes;
}
inline int __any_sync(unsigned mask, int predicate, CUDALAB_PLACE) {
    return __ballot_sync(mask, predicate, file, line) != 0;
}
inline int __all_sync(unsigned mask, int predicate, CUDALAB_PLACE) {
    return __ballot_sync(mask, !predicate, file, line) == 0;
}

template <class T> inline unsigned __match_any_sync(unsigned mask, T value, CUDALAB_PLACE) {
    const unsigned present = cudalab::meet(cudalab::match, mask, cudalab::packed(value), file, line);
    unsigned same = 0;
    for (unsigned lane = 0; lane < 32; ++lane)
        if ((present >> lane & 1) && cudalab::brought_by(lane) == cudalab::packed(value)) same |= 1u << lane;
    return same;
}

// The whole mask, and *same = 1, where all lanes bring the same value; else 0.
template <class T> inline unsigned __match_all_sync(unsigned mask, T value, int* same, CUDALAB_PLACE) {
    const unsigned present = cudalab::meet(cudalab::match, mask, cudalab::packed(value), file, line);
    *same = 1;
    for (unsigned lane = 0; lane < 32; ++lane)
        if ((present >> lane & 1) && cudalab::brought_by(lane) != cudalab::packed(value)) *same = 0;
    return *same ? present : 0;
}

// ---- reductions (compute capability 8.0 and up) ---------------------------------------------------------------------
#define CUDALAB_REDUCE(name, T, expression)                                                                      \
    inline T name(unsigned mask, T value, CUDALAB_PLACE) {                                                       \
        return T(cudalab::reduced(                                                                               \
            mask, unsigned(value),                                                                               \
            [](unsigned p, unsigned q) {                                                                         \
                const T a = T(p), b = T(q);                                                                      \
                return unsigned(expression);                                                                     \
            },                                                                                                   \
            file, line));                                                                                        \
    }
CUDALAB_REDUCE(__reduce_add_sync, unsigned, a + b)
CUDALAB_REDUCE(__reduce_min_sync, unsigned, min(a, b))
CUDALAB_REDUCE(__reduce_max_sync, unsigned, max(a, b))
CUDALAB_REDUCE(__reduce_and_sync, unsigned, a & b)
CUDALAB_REDUCE(__reduce_or_sync, unsigned, a | b)
CUDALAB_REDUCE(__reduce_xor_sync, unsigned, a ^ b)
CUDALAB_REDUCE(__reduce_add_sync, int, int(unsigned(a) + unsigned(b)))
CUDALAB_REDUCE(__reduce_min_sync, int, min(a, b))
CUDALAB_REDUCE(__reduce_max_sync, int, max(a, b))
#undef CUDALAB_REDUCE
