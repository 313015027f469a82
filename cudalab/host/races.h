// Finds races on shared memory: two threads of a block or cluster use the same bytes, one of them changes them, and no
// barrier lies between. g++ -fsanitize=thread calls the functions at the end of this file before each access; its own library, which
// they replace, knows threads of the operating system only.
//
// Barriers split the run of a block into epochs, warp operations that of a warp, barriers of a cluster that of its blocks
// into phases. Two accesses are in order if they are of one thread, of one block in different epochs, of one warp in
// different epochs of the warp, or of two blocks in different phases. A store of the value that is there already is no
// change. Atomic accesses race with others only. In a cluster a fence orders all that is before it with all that follows.
//
// A lock or a flag orders two threads of a block as well: the first calls a fence and makes an atomic access, the second makes
// one at the same address after it.
#pragma once
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

namespace cudalab {

// How an access is ordered with others. A relaxed one is atomic, and what another block did before is there only after a fence.
enum strength : unsigned { plain, atomic_access, block_scope, relaxed, volatile_access };

#if CUDALAB_RACES
// What the threads of a block know of each other by fences and atomic accesses, without a barrier. A moment is the number of
// such events in the block so far. Moments grow from block to block, so that what an earlier block left means nothing.
class handovers {
public:
    CUDALAB_UNWATCHED handovers(unsigned threads) : count(threads) {}
    CUDALAB_UNWATCHED ~handovers() {
        for (moments* one : known) free(one);
        for (moments* one : places) free(one);
    }
    handovers(const handovers&) = delete;
    CUDALAB_UNWATCHED void start_block() { ++moment, memset(looks_at, 0, sizeof looks_at); }
    CUDALAB_UNWATCHED uint32_t now() const { return moment; }
    CUDALAB_UNWATCHED void fence(unsigned thread) { fenced[thread] = ++moment; }
    // The thread is about to make an atomic access.
    CUDALAB_UNWATCHED void atomic(unsigned thread, const void* address, size_t bytes, bool writes) {
        ++moment;
        for (size_t word = 0; word < bytes; word += 4) {
            const char* const at = static_cast<const char*>(address) + word;
            moments*& place = places[slot(at)];
            learn_for(thread, place);
            if (!writes) continue;
            know_warp(thread);
            learn(place, known[thread]);
            if (moments* const own = made(place)) own[thread] = {moment, fenced[thread]};
        }
        looks_at[thread] = writes ? nullptr : address;
    }
    // The address that the thread has looked at last, if it has made no access since.
    CUDALAB_UNWATCHED const void* looked(unsigned thread) const { return looks_at[thread]; }
    // Each lane of a warp knows what any of them knows, and what all of them did.
    CUDALAB_UNWATCHED void warp_barrier(unsigned warp) {
        warp_at[warp] = ++moment;
        if (!learned[warp]) return;
        learned[warp] = false;
        const unsigned first = 32 * warp, end = first + 32 < count ? first + 32 : count;
        moments* all = nullptr;
        for (unsigned t = first; t < end; ++t) learn(all, known[t]);
        for (unsigned t = first; t < end; ++t) learn(known[t], all);
        free(all);
    }
    // The thread goes on after its last access. Other threads may have written to what it looked at before it saw it.
    CUDALAB_UNWATCHED void goes_on(unsigned thread) {
        if (looks_at[thread]) learn_for(thread, places[slot(looks_at[thread])]), looks_at[thread] = nullptr;
    }
    // Whether what thread `from` did at a moment is in order with what thread `to` does now. A read needs no fence.
    CUDALAB_UNWATCHED bool in_order(unsigned from, uint32_t at, bool writes, unsigned to) const {
        return known[to] && (writes ? known[to][from].published : known[to][from].atomic) > at;
    }

private:
    struct moments { uint32_t atomic, published; };  // of a thread: its last atomic access, and its last fence before that
    // Addresses that share a slot count as one: then two threads may seem to be in order.
    CUDALAB_UNWATCHED static size_t slot(const void* address) {
        return (uintptr_t(address) / 4 * 0x9e3779b97f4a7c15ull) >> 54;
    }
    CUDALAB_UNWATCHED moments* made(moments*& one) const {
        return one ? one : one = static_cast<moments*>(calloc(count, sizeof(moments)));
    }
    CUDALAB_UNWATCHED void learn_for(unsigned thread, const moments* from) {
        learn(known[thread], from), learned[thread / 32] |= from != nullptr;
    }
    // What its warp did before their last barrier is published by a fence of the thread, or of each lane before that barrier.
    CUDALAB_UNWATCHED void know_warp(unsigned thread) {
        const uint32_t at = warp_at[thread / 32];
        if (!at || !made(known[thread])) return;
        for (unsigned t = thread / 32 * 32; t < count && t / 32 == thread / 32; ++t) {
            moments& one = known[thread][t];
            if (t != thread && at > one.atomic) one.atomic = at;
            const uint32_t upto = fenced[thread] > at ? at : fenced[t] < at ? fenced[t] : 0;
            if (t != thread && upto > one.published) one.published = upto;
        }
    }
    CUDALAB_UNWATCHED void learn(moments*& to, const moments* from) const {
        if (!from || !made(to)) return;
        for (unsigned t = 0; t < count; ++t) {
            if (from[t].atomic > to[t].atomic) to[t].atomic = from[t].atomic;
            if (from[t].published > to[t].published) to[t].published = from[t].published;
        }
    }
    unsigned count;
    uint32_t moment = 1, fenced[1024] = {}, warp_at[32] = {};  // of each thread's last fence, of each warp's last barrier
    bool learned[32] = {};  // whether a lane of the warp has learned of others since that barrier
    const void* looks_at[1024] = {};
    moments *known[1024] = {}, *places[1024] = {};  // what each thread knows of all threads, and what is known at addresses
};

struct access {
    uint32_t epoch, warp_epoch;  // of the block that makes it; epoch 0: none yet
    uint32_t phase, at;          // of the cluster; of its block's handovers
    uint16_t thread, block;      // the block's place among those that live at the same time
    bool atomic;
    uintptr_t code;  // the address of the instruction, from the start of this module
};

CUDALAB_UNWATCHED const handovers& handed_over();  // of the block that runs, in fibers.h

// What to ask of two plain stores of unlike values to one place; a barrier alone would not make both of them right.
CUDALAB_UNWATCHED inline const char* of_stores(const char* did, const char* does, bool plain) {
    const bool both = plain && !strcmp(did, "writes") && !strcmp(does, "writes");
    return both ? ": is the index of one of them beyond its own elements?" : "";
}

inline size_t shared_gaps[64][2];  // between static shared arrays: from the start of the thread-local variables; 0 0: none

class race_watch {
public:
    // Watch these bytes; `count` threads in a block.
    CUDALAB_UNWATCHED void add(void* start, size_t bytes) {
        if (regions == 2 || !bytes) return;
        region[regions] = {static_cast<char*>(start), bytes, static_cast<cell*>(calloc(bytes, sizeof(cell)))};
        if (region[regions].cells) ++regions;
    }
    CUDALAB_UNWATCHED void leave_out(const void* start, size_t bytes) {  // a variable of the lab
        for (size_t i = 0; i < bytes; ++i)
            if (cell* one = at(static_cast<const char*>(start) + i)) one->ours = true;
    }
    CUDALAB_UNWATCHED ~race_watch() {
        for (unsigned i = 0; i < regions; ++i) free(region[i].cells);
    }
    CUDALAB_UNWATCHED bool holds(const void* address) { return at(address); }
    CUDALAB_UNWATCHED bool watches(const void* address) {
        const cell* const one = at(address);
        return one && !one->ours;
    }
    // The bytes between the arrays that start here are nobody's.
    CUDALAB_UNWATCHED void mark_gaps(char* start) {
        for (const auto& gap : shared_gaps)
            for (size_t i = gap[0]; i < gap[1]; ++i)
                if (cell* const one = at(start + i)) one->gap = true;
    }
    uintptr_t base = 0;   // where this module is loaded
    unsigned owner = 0;   // the place of the block that has the memory

    CUDALAB_UNWATCHED void flush() { settle(); }
    CUDALAB_UNWATCHED void barrier() { settle(), ++epoch; }
    CUDALAB_UNWATCHED void warp_barrier(unsigned warp) { settle(), ++warp_epoch[warp]; }
    CUDALAB_UNWATCHED access made_by(unsigned thread, uint32_t phase, bool atomic, void* code) const {
        return {epoch, warp_epoch[thread / 32], phase, handed_over().now(), uint16_t(thread), uint16_t(owner), atomic,
                uintptr_t(code) - base};
    }
    // `named`: where the block has these bytes while it runs, which may be elsewhere than at `address`.
    CUDALAB_UNWATCHED void touch(const void* address, const void* named, size_t bytes, bool writes, const access& now) {
        settle();
        cell* first = at(named);
        if (!first || first->ours || !at(static_cast<const char*>(named) + bytes - 1)) return;
        if (first->gap || first[bytes - 1].gap) return tell_of_gap(bytes, writes, now);
        const bool again = address == asked && now.thread == asked_by;
        asked = bytes == 1 && !writes ? address : nullptr, asked_by = now.thread;
        guards = writes && bytes == 1 && again && uintptr_t(address) % 8 == 0 && !*static_cast<const char*>(address);
        if (!writes) {
            for (size_t i = 0; i < bytes; ++i) {
                if (!first[i].write.atomic && conflict(first[i].write, now)) return tell(first[i].write, "writes", now, "reads", bytes);
                access* const kept = first[i].reads;
                kept[in_order(kept[0], now) || same_thread(kept[0], now) ? 0 : 1] = now;
            }
        } else if (bytes <= sizeof before) {  // looked at again when the value is there
            memcpy(before, address, waiting = bytes);
            cells = first, place = static_cast<const char*>(address), change = now;
        }
    }

private:
    struct cell {
        access write, reads[2];  // the last change, and the last reads by different threads
        bool ours, gap;
    };
    CUDALAB_UNWATCHED cell* at(const void* address) {
        for (unsigned i = 0; i < regions; ++i) {
            const size_t offset = static_cast<const char*>(address) - region[i].start;
            if (offset < region[i].bytes) return region[i].cells + offset;
        }
        return nullptr;
    }
    CUDALAB_UNWATCHED static bool same_thread(const access& one, const access& other) {
        return one.thread == other.thread && one.block == other.block;
    }
    CUDALAB_UNWATCHED static bool in_order(const access& old, const access& now) {
        if (old.block != now.block) return old.phase != now.phase;
        return old.epoch != now.epoch || old.thread == now.thread ||
               (old.thread / 32 == now.thread / 32 && old.warp_epoch != now.warp_epoch);
    }
    CUDALAB_UNWATCHED static bool conflict(const access& old, const access& now, bool old_writes = true) {
        return old.epoch && now.epoch && !in_order(old, now) && !(old.atomic && now.atomic) &&
               !(old.block == now.block && handed_over().in_order(old.thread, old.at, old_writes, now.thread));
    }
    // A plain read beside an atomic change is usual: `if (v > *most) atomicMax(most, v)`, and before an atomicCAS().
    CUDALAB_UNWATCHED static bool conflict_with_read(const access& read, const access& write) {
        return !write.atomic && conflict(read, write, false);
    }
    // Takes in the last store.
    CUDALAB_UNWATCHED void settle() {
        const size_t bytes = waiting;
        waiting = 0;
        if (!bytes || (!change.atomic && !memcmp(before, place, bytes))) return;
        if (guards && *place == 1) {  // g++ asks so whether an array of classes was initialized
            cells->ours = true;
            return;
        }
        for (size_t i = 0; i < bytes; ++i) {
            if (conflict(cells[i].write, change)) return tell(cells[i].write, "writes", change, "writes", bytes);
            for (const access& read : cells[i].reads)
                if (conflict_with_read(read, change)) return tell(read, "reads", change, "writes", bytes);
            const access old = cells[i].write;
            cells[i].write = change;
            if (change.atomic && !old.atomic && old.epoch == change.epoch && same_thread(old, change))
                cells[i].write.atomic = false, cells[i].write.code = old.code;  // a plain one of this thread, just now
        }
    }
    CUDALAB_UNWATCHED void tell(const access& old, const char* did, const access& now, const char* does, size_t bytes) {
        const uint3 a = thread_at(old.thread), b = thread_at(now.thread);
        if (old.block != owner || now.block != owner)
            return tell_of_cluster(a, did, old, b, does, now, bytes);
        current_outcome->failed.record("race on %zu bytes of shared memory in block (%u,%u,%u): thread (%u,%u,%u) %s at @%zx@, "
                                "thread (%u,%u,%u) %s at @%zx@, without a barrier between them%s", bytes, blockIdx.x,
                                blockIdx.y, blockIdx.z, a.x, a.y, a.z, did, size_t(old.code), b.x, b.y, b.z, does,
                                size_t(now.code), of_stores(did, does, !old.atomic && !now.atomic));
    }
    CUDALAB_UNWATCHED void tell_of_gap(size_t bytes, bool writes, const access& now) {
        const uint3 a = thread_at(now.thread);
        current_outcome->failed.record("%s %zu bytes outside an array: between two of its static shared arrays, at @%zx@, block "
                                "(%u,%u,%u), thread (%u,%u,%u)", writes ? "writes" : "reads", bytes, size_t(now.code), blockIdx.x,
                                blockIdx.y, blockIdx.z, a.x, a.y, a.z);
    }
    CUDALAB_UNWATCHED void tell_of_cluster(uint3 a, const char* did, const access& old, uint3 b, const char* does,
                                           const access& now, size_t bytes) const;  // in gang.h

    struct watched { char* start; size_t bytes; cell* cells; } region[2];
    unsigned regions = 0;
    uint32_t epoch = 1, warp_epoch[32] = {};
    char before[32];
    size_t waiting = 0;
    const void* asked = nullptr;  // the byte that was read last, and by whom
    uint32_t asked_by = 0;
    bool guards = false;
    cell* cells;
    const char* place;
    access change;
};

// The access that comes next. It is left in memory that outlives this process, which may end at it.
struct last_access {
    uint64_t code, address, bytes, writes, thread, block[3];
};
inline last_access lost;
inline last_access* last = &lost;
CUDALAB_UNWATCHED void touched(const void* address, size_t bytes, bool writes, unsigned strength, void* code);  // fibers.h
CUDALAB_UNWATCHED void fenced(bool of_block);
CUDALAB_UNWATCHED void took(const void* address, unsigned strength);  // by an atomic operation that may change it
CUDALAB_UNWATCHED void past_l1(const void* start, size_t bytes);  // this thread reads these now; 0 bytes: none
#else
inline void touched(const void*, size_t, bool, unsigned, void*) {}
inline void fenced(bool) {}
inline void took(const void*, unsigned) {}
inline void past_l1(const void*, size_t) {}
#endif

}  // namespace cudalab

#if (CUDALAB_RACES || CUDALAB_VOLATILE) && CUDALAB_RUNTIME
#define CUDALAB_TSAN extern "C" __attribute__((used, visibility("hidden"), no_sanitize("thread"))) void
#define CUDALAB_ACCESS(bytes)                                                                                             \
    CUDALAB_TSAN __tsan_read##bytes(void* a) { cudalab::touched(a, bytes, false, cudalab::plain, __builtin_return_address(0)); }   \
    CUDALAB_TSAN __tsan_write##bytes(void* a) { cudalab::touched(a, bytes, true, cudalab::plain, __builtin_return_address(0)); }   \
    CUDALAB_TSAN __tsan_unaligned_read##bytes(void* a) {                                                                  \
        cudalab::touched(a, bytes, false, cudalab::plain, __builtin_return_address(0));                                            \
    }                                                                                                                     \
    CUDALAB_TSAN __tsan_unaligned_write##bytes(void* a) {                                                                 \
        cudalab::touched(a, bytes, true, cudalab::plain, __builtin_return_address(0));                                             \
    }
CUDALAB_ACCESS(1)
CUDALAB_ACCESS(2)
CUDALAB_ACCESS(4)
CUDALAB_ACCESS(8)
CUDALAB_ACCESS(16)
#undef CUDALAB_ACCESS
CUDALAB_TSAN __tsan_read_range(void* a, size_t bytes) { cudalab::touched(a, bytes, false, cudalab::plain, __builtin_return_address(0)); }
CUDALAB_TSAN __tsan_write_range(void* a, size_t bytes) { cudalab::touched(a, bytes, true, cudalab::plain, __builtin_return_address(0)); }
CUDALAB_TSAN __tsan_init() {}
CUDALAB_TSAN __tsan_func_entry(void*) {}
CUDALAB_TSAN __tsan_func_exit() {}
CUDALAB_TSAN __tsan_vptr_update(void**, void*) {}
CUDALAB_TSAN __tsan_vptr_read(void**) {}
CUDALAB_TSAN __tsan_atomic_thread_fence(int) { __sync_synchronize(); }
CUDALAB_TSAN __tsan_atomic_signal_fence(int) {}
#undef CUDALAB_TSAN
#endif
