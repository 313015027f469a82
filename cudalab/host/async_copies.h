// Issuing asynchronous copies, and barriers with phases: what <cuda_pipeline.h>, <cuda/barrier>, <cuda/pipeline> and
// cooperative_groups::memcpy_async share. Only in fiber mode.
#pragma once
#include <algorithm>
#include "copy_queue.h"

namespace cudalab {

CUDALAB_UNWATCHED inline void issue(const async_copy& one) {
    async_copy copy = one;
    copy.landed = running->coin();
    if (copy.landed) copy.store();
    memcpy(copy.before, copy.to, copy.bytes);
    running->copies().add(copy);
}

// What cp.async takes: 4, 8 or 16 bytes from global to shared memory, aligned to as many.
inline void copy_few(void* to, const void* from, size_t bytes, size_t zeros, const char* file, unsigned line) {
    if (bytes != 4 && bytes != 8 && bytes != 16)
        fail("%s:%u: " CUDALAB_WHERE ": an asynchronous copy of %zu bytes; only 4, 8 or 16 are allowed", file, line, CUDALAB_HERE, bytes);
    if (zeros > bytes)
        fail("%s:%u: " CUDALAB_WHERE ": an asynchronous copy of %zu bytes with %zu of them set to zero", file, line, CUDALAB_HERE, bytes, zeros);
    for (const uintptr_t address : {uintptr_t(to), uintptr_t(from)})
        if (address % bytes)
            fail("%s:%u: " CUDALAB_WHERE ": misaligned address: an asynchronous copy of %zu bytes needs an alignment "
                 "of %zu bytes for its %s, and the address is %zu bytes off", file, line, CUDALAB_HERE, bytes, bytes,
                 address == uintptr_t(to) ? "destination" : "source", size_t(address % bytes));
#if !CUDALAB_SANITIZE && defined(__linux__)
    if (!running->shares(to) || running->shares(from))
        fail("%s:%u: " CUDALAB_WHERE ": __pipeline_memcpy_async copies from global to shared memory; its %s", file, line,
             CUDALAB_HERE, running->shares(to) ? "source is in shared memory" : "destination is not in shared memory");
#endif
    issue({static_cast<char*>(to), static_cast<const char*>(from), unsigned(bytes), unsigned(zeros), file, line,
           __builtin_return_address(0), {}, false});
}

// The share of thread `rank` of `size` in a copy of `bytes`, whose addresses are multiples of `align`.
inline void copy_share(void* to, const void* from, size_t bytes, size_t align, bool whole, unsigned rank, unsigned size,
                       const char* file, unsigned line) {
    for (const uintptr_t address : {uintptr_t(to), uintptr_t(from)})
        if (address % align)
            fail("%s:%u: " CUDALAB_WHERE ": misaligned address: memcpy_async needs an alignment of %zu bytes for its "
                 "%s, and the address is %zu bytes off", file, line, CUDALAB_HERE, align,
                 address == uintptr_t(to) ? "destination" : "source",
                 size_t(address % align));
    if (whole && bytes % align)
        fail("%s:%u: " CUDALAB_WHERE ": memcpy_async of aligned_size_t<%zu>(%zu), which is not a multiple of %zu", file, line,
             CUDALAB_HERE, align, bytes, align);
    const size_t piece = align < 4 ? 4 : align < 16 ? align : 16;
    for (size_t at = size_t(rank) * piece; at < bytes; at += size_t(size) * piece)
        issue({static_cast<char*>(to) + at, static_cast<const char*>(from) + at, unsigned(std::min(piece, bytes - at)), 0, file,
               line, __builtin_return_address(0), {}, false});
}

// Eight bytes, as on a GPU: how many arrivals the phase lacks, how many the next one expects, the number of the phase, and
// a mark that init() leaves.
class phase_barrier {
public:
    static constexpr uint64_t most = (1 << 20) - 1;

    void init(long long expected, const char* file, unsigned line) {
        if (expected < 0 || expected > (long long)most)
            fail("%s:%u: " CUDALAB_WHERE ": a barrier of %lld threads; 0 to %llu are allowed", file, line, CUDALAB_HERE, expected,
                 (unsigned long long)most);
        auto& bound = running->awaited().bound;
        bound.erase(std::remove_if(bound.begin(), bound.end(), [&](const bound_copy& b) { return b.barrier == this; }), bound.end());
        bytes_awaited() = 0;
        store(pack(uint64_t(expected), uint64_t(expected), 0));
        changed();
    }
    // Returns the phase to which it belongs.
    unsigned arrive(long long times, unsigned drop, const char* file, unsigned line) {
        uint64_t old = load(), fresh;
        do {
            check(old, file, line);
            if (times < 0 || uint64_t(times) > pending(old))
                fail("%s:%u: " CUDALAB_WHERE ": %lld arrivals at a barrier that still expects %llu of the %llu in this phase", file,
                     line, CUDALAB_HERE, times, (unsigned long long)pending(old), (unsigned long long)expected(old));
            fresh = advanced(pack(pending(old) - uint64_t(times), expected(old) - drop, phase(old)));
        } while (!replace(old, fresh));
        arrived(old, fresh);
        return unsigned(phase(old));
    }
    // Bytes that the phase also waits for; negative: that have been copied.
    void expect_bytes(long long bytes, const char* file, unsigned line) {
        uint64_t old = load(), fresh;
        check(old, file, line);
        bytes_awaited() += bytes;
        do fresh = advanced(old);
        while (!replace(old, fresh));
        arrived(old, fresh);
    }
    // The current phase ends only when these copies can land.
    void bind(const async_copy& copy, const char* file, unsigned line) {
        check(load(), file, line);
        running->awaited().bound.push_back({copy, this, unsigned(phase(load()))});
    }
    bool ended(unsigned of, const char* file, unsigned line) {
        check(load(), file, line);
        if (!past(this, of)) return looked(this, load()), false;
        land();
        return true;
    }
    bool ended_parity(bool parity, const char* file, unsigned line) {
        check(load(), file, line);
        if (!past_parity(this, parity)) return looked(this, load()), false;
        land();
        return true;
    }
    void wait(unsigned of, const char* file, unsigned line) { wait_for(past, of, file, line); }
    void wait_parity(bool parity, const char* file, unsigned line) { wait_for(past_parity, parity, file, line); }

private:
    static uint64_t pending(uint64_t bits) { return bits & most; }
    static uint64_t expected(uint64_t bits) { return bits >> 20 & most; }
    static uint64_t phase(uint64_t bits) { return bits >> 40 & 0xffff; }
    static uint64_t pack(uint64_t pending, uint64_t expected, uint64_t phase) {
        return pending | (expected & most) << 20 | (phase & 0xffff) << 40 | mark;
    }
    static constexpr uint64_t mark = 0xb5ull << 56;

    uint64_t advanced(uint64_t bits) {
        if (pending(bits) || bytes_awaited()) return bits;
        return pack(expected(bits), expected(bits), phase(bits) + 1);
    }
    static void arrived(uint64_t old, uint64_t fresh) {
        in_order(phase(old) != phase(fresh));
        running->passed();
    }
    static void check(uint64_t bits, const char* file, unsigned line) {
        if (bits >> 56 != mark >> 56)
            fail("%s:%u: " CUDALAB_WHERE ": a barrier that is not initialized: let one thread call init(&barrier, "
                 "threads), then all threads __syncthreads()", file, line, CUDALAB_HERE);
    }
    static bool past(const void* self, uint64_t of) { return phase(static_cast<const phase_barrier*>(self)->load()) != of; }
    static bool past_parity(const void* self, uint64_t parity) {
        return (phase(static_cast<const phase_barrier*>(self)->load()) & 1) != parity;
    }
    void wait_for(bool (*until)(const void*, uint64_t), uint64_t value, const char* file, unsigned line) {
        check(load(), file, line);
        if (running->shares(this) || CUDALAB_SANITIZE) running->wait_until(until, this, value, file, line);
        else
            while (!until(this, value)) looked(this, load());
        land();
    }
    // The copies of phases that have ended.
    void land() {
        const unsigned now = unsigned(phase(load()));
        auto& bound = running->awaited().bound;
        std::vector<bound_copy> due;
        for (const bound_copy& one : bound)
            if (one.barrier == this && one.phase != now) due.push_back(one);
        if (due.empty()) return;
        bound.erase(std::remove_if(bound.begin(), bound.end(), [&](const bound_copy& b) { return b.barrier == this && b.phase != now; }),
                    bound.end());
        running->landing = true;
        for (const bound_copy& one : due) one.copy.land();
        running->landing = false;
        in_order(true);
    }
    long long& bytes_awaited() {
        for (transaction& one : running->awaited().transactions)
            if (one.barrier == this) return one.bytes;
        running->awaited().transactions.push_back({this, 0});
        return running->awaited().transactions.back().bytes;
    }
    CUDALAB_UNWATCHED uint64_t load() const { return __atomic_load_n(&state, __ATOMIC_SEQ_CST); }
    CUDALAB_UNWATCHED void store(uint64_t bits) { __atomic_store_n(&state, bits, __ATOMIC_SEQ_CST); }
    CUDALAB_UNWATCHED bool replace(uint64_t& old, uint64_t fresh) {
        return __atomic_compare_exchange_n(&state, &old, fresh, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    }

    uint64_t state;
};

}  // namespace cudalab
