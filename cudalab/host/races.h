// Finds races on shared memory: two threads of a block use the same bytes, one of them changes them, and no barrier lies
// between. g++ -fsanitize=thread calls the functions at the end of this file before each access; its own library, which
// they replace, knows threads of the operating system only.
//
// Barriers split the run of a block into epochs, warp operations that of a warp. Two accesses are in order if they are of
// one thread, of different epochs, or of one warp in different epochs of the warp. A store of the value that is there
// already is no change. Atomic accesses race with others only.
#pragma once
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

namespace cudalab {

// How an access is ordered with others.
enum strength : unsigned { plain, atomic_access, block_scope };

#if CUDALAB_RACES
struct access {
    uint32_t epoch, warp_epoch;  // epoch 0: none yet
    uint32_t thread;
    bool atomic;
    uintptr_t code;  // the address of the instruction, from the start of this module
};

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
    uintptr_t base = 0;  // where this module is loaded

    CUDALAB_UNWATCHED void flush() { settle(); }
    CUDALAB_UNWATCHED void barrier() { settle(), ++epoch; }
    CUDALAB_UNWATCHED void warp_barrier(unsigned warp) { settle(), ++warp_epoch[warp]; }
    CUDALAB_UNWATCHED void touch(const void* address, size_t bytes, bool writes, bool atomic, unsigned thread, uint3 index,
                                 void* code) {
        settle();
        cell* first = at(address);
        if (!first || first->ours || !at(static_cast<const char*>(address) + bytes - 1)) return;
        const bool again = address == asked && thread == asked_by;
        asked = bytes == 1 && !writes ? address : nullptr, asked_by = thread;
        guards = writes && bytes == 1 && again && uintptr_t(address) % 8 == 0 && !*static_cast<const char*>(address);
        const access now{epoch, warp_epoch[thread / 32], thread, atomic, uintptr_t(code) - base};
        indices[thread] = index;
        if (!writes) {
            for (size_t i = 0; i < bytes; ++i) {
                if (read_conflict(first[i].write, now)) return tell(first[i].write, "writes", now, "reads", bytes);
                access* const kept = first[i].reads;
                kept[in_order(kept[0], now) || kept[0].thread == thread ? 0 : 1] = now;
            }
        } else if (bytes <= sizeof before) {  // looked at again when the value is there
            memcpy(before, address, waiting = bytes);
            cells = first, place = static_cast<const char*>(address), change = now;
        }
    }

private:
    struct cell {
        access write, reads[2];  // the last change, and the last reads by different threads
        bool ours;
    };
    CUDALAB_UNWATCHED cell* at(const void* address) {
        for (unsigned i = 0; i < regions; ++i) {
            const size_t offset = static_cast<const char*>(address) - region[i].start;
            if (offset < region[i].bytes) return region[i].cells + offset;
        }
        return nullptr;
    }
    CUDALAB_UNWATCHED static bool in_order(const access& old, const access& now) {
        return old.epoch != now.epoch || old.thread == now.thread ||
               (old.thread / 32 == now.thread / 32 && old.warp_epoch != now.warp_epoch);
    }
    CUDALAB_UNWATCHED static bool conflict(const access& old, const access& now) {
        return old.epoch && !in_order(old, now) && !(old.atomic && now.atomic);
    }
    // A plain read beside an atomic change is usual: `if (v > *most) atomicMax(most, v)`, and before an atomicCAS().
    CUDALAB_UNWATCHED static bool read_conflict(const access& write, const access& read) {
        return !write.atomic && conflict(write, read);
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
                if (read_conflict(change, read)) return tell(read, "reads", change, "writes", bytes);
            const access old = cells[i].write;
            cells[i].write = change;
            if (change.atomic && !old.atomic && old.epoch == change.epoch && old.thread == change.thread)
                cells[i].write.atomic = false, cells[i].write.code = old.code;  // a plain one of this thread, just now
        }
    }
    CUDALAB_UNWATCHED void tell(const access& old, const char* did, const access& now, const char* does, size_t bytes) {
        const uint3 a = indices[old.thread], b = indices[now.thread];
        current_failure->record("race on %zu bytes of shared memory in block (%u,%u,%u): thread (%u,%u,%u) %s at @%zx@, "
                                "thread (%u,%u,%u) %s at @%zx@, without a barrier between them", bytes, blockIdx.x,
                                blockIdx.y, blockIdx.z, a.x, a.y, a.z, did, size_t(old.code), b.x, b.y, b.z, does,
                                size_t(now.code));
    }

    struct watched { char* start; size_t bytes; cell* cells; } region[2];
    unsigned regions = 0;
    uint32_t epoch = 1, warp_epoch[32] = {};
    uint3 indices[1024];
    char before[32];
    size_t waiting = 0;
    const void* asked = nullptr;  // the byte that was read last, and by whom
    uint32_t asked_by = 0;
    bool guards = false;
    cell* cells;
    const char* place;
    access change;
};

CUDALAB_UNWATCHED void touched(const void* address, size_t bytes, bool writes, unsigned strength, void* code);  // fibers.h
CUDALAB_UNWATCHED void fenced();
#else
inline void touched(const void*, size_t, bool, unsigned, void*) {}
inline void fenced() {}
#endif

}  // namespace cudalab

#if CUDALAB_RACES || CUDALAB_VOLATILE
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
