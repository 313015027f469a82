// Finds races on global memory: two threads use the same bytes, one of them changes them, and nothing orders the two.
// The threads of a block are ordered by barriers, as in races.h. Blocks are ordered by a fence and an atomic access: the
// writer calls __threadfence() and then makes an atomic (or volatile) access, the reader makes one before it reads.
//
// Blocks run one after another here, so a block's values are always there for the next one. What counts is whether CUDA
// promises them. Where a pattern could be right, it counts as right: a plain read beside atomic changes is no race, any
// atomic access of a block acquires, and an operation of a warp orders like a barrier.
#pragma once

namespace cudalab {

#if CUDALAB_RACES
struct place { const void* start; size_t bytes; unsigned granule; };
static place wanted_places[32];  // the arrays that the next launch watches
static unsigned wanted_count;
static bool wanted_huge;                       // reserved arrays: look for addresses beside them, not for races
static size_t written_first[32], written_last[32];  // of reserved arrays: from which byte and up to which they were written
static bool atomics_seen;  // of a launch on reserved arrays: blocks may take their numbers from a counter
static uint64_t wanted_accesses = ~0ull;       // after so many the launch gives up
static size_t wanted_reach;                    // bytes on both sides of each array that nothing else has
constexpr unsigned variables = 999;           // the number of the module's variables in a message
constexpr const char* gave_up = "gave up: ";   // module.py knows it

class global_watch {
public:
    // Watch the arrays of the launch and the module's own variables.
    CUDALAB_UNWATCHED void begin(const char* own_variables, size_t variables_bytes) {
        left = wanted_accesses, reach = wanted_reach, huge = wanted_huge;
        for (unsigned i = 0; i < wanted_count; ++i) add(wanted_places[i], i);
        if (!huge && variables_bytes <= 1u << 20) add({own_variables, variables_bytes, 4}, variables);
        blocks = size_t(gridDim.x) * gridDim.y * gridDim.z;
        if (!huge && blocks <= 1u << 16) published = static_cast<release**>(calloc(blocks, sizeof(release*)));
        if (!published) areas = huge ? areas : 0;
    }
    CUDALAB_UNWATCHED ~global_watch() {
        for (const watched& one : area) free(one.cells);
        for (size_t b = 0; published && b < blocks; ++b) free(published[b]);
        free(published);
    }
    CUDALAB_UNWATCHED void add(const place& one, unsigned number) {
        const size_t cells = huge ? 0 : (one.bytes + one.granule - 1) / one.granule;
        if (areas == sizeof area / sizeof *area || !one.bytes) return;
        area[areas] = {static_cast<const char*>(one.start), one.bytes, one.granule, number, nullptr};
        if (!cells || (area[areas].cells = static_cast<cell*>(calloc(cells, sizeof(cell))))) ++areas;
    }
    CUDALAB_UNWATCHED void start_block() {
        settle();
        block = unsigned((size_t(blockIdx.z) * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x);
        acquired = fenced = false;
        all_at_barrier = barrier_at = 0;
        memset(own, 0, sizeof own), memset(own_at_barrier, 0, sizeof own_at_barrier), memset(all, 0, sizeof all);
        ++epoch;
    }
    CUDALAB_UNWATCHED void barrier() { settle(), ++epoch, passed(); }
    CUDALAB_UNWATCHED void warp_barrier(unsigned warp) { settle(), ++warp_epoch[warp], passed(); }
    // What the block did before is in order with all that comes after its next atomic access.
    CUDALAB_UNWATCHED void in_order() { settle(), ++epoch, fenced = true, barrier_at = all_at_barrier = ++now; }
    CUDALAB_UNWATCHED void fence(unsigned thread) {
        settle();
        fenced = true, own[thread] = ++now, all[thread] = barrier_at;
    }
    // Returns false where the thread must not make this access.
    CUDALAB_UNWATCHED bool touch(const void* address, size_t bytes, bool writes, unsigned kind, unsigned thread, uintptr_t code) {
        settle();
        if (kind != plain && !follow()) return false;
        atomics_seen |= kind != plain;
        if (kind != plain && !huge) synchronize(thread);
        const watched* beside = nullptr;
        for (unsigned i = 0; i < areas; ++i) {
            const size_t offset = static_cast<const char*>(address) - area[i].start;
            if (offset >= area[i].bytes) {
                if (area[i].number != variables && offset + reach < area[i].bytes + 2 * reach) beside = &area[i];
                continue;
            }
            if (offset + bytes > area[i].bytes && area[i].number != variables)
                return outside(area[i], offset, bytes, writes, thread, code);
            if (!follow()) return false;
            if (huge) return noted(area[i], offset, bytes, writes), true;
            look(area[i], offset, bytes, {block + 1, epoch, warp_epoch[thread / 32], uint16_t(thread), 0, 0, kind, ++now, code}, writes);
            return true;
        }
        if (beside) return outside(*beside, static_cast<const char*>(address) - beside->start, bytes, writes, thread, code);
        return true;
    }
    CUDALAB_UNWATCHED void settle() {
        const size_t bytes = waiting;
        waiting = 0;
        if (!bytes || (change.kind == plain && !memcmp(before, at, bytes))) return;
        each(*in, size_t(at - in->start), bytes, change, [&](cell& one, const access& fresh) {
            if (conflict(one.write, fresh, true, true)) return tell(one.write, "writes", fresh, "writes", bytes), false;
            for (const access& read : one.reads)
                if (conflict(read, fresh, false, true)) return tell(read, "reads", fresh, "writes", bytes), false;
            if (one.write.block != fresh.block || one.write.kind != plain || fresh.kind == plain ||
                one.write.thread != fresh.thread) one.write = fresh;
            return true;
        });
    }

private:
    // Whether to follow one more access of a thread. Plain accesses outside of the arrays may be the scheduler's own.
    // After too many a launch on reserved arrays ends, and another one runs to its end unwatched.
    CUDALAB_UNWATCHED bool follow() {
        if (left) return --left, true;
        if (!huge) return areas = 0, true;
        return current_failure->record("%smore accesses than a check follows", gave_up), false;
    }
    struct access {
        uint32_t block, epoch, warp_epoch;  // block 0: none yet
        uint16_t thread;
        uint8_t low, high;  // the bytes within the cell
        unsigned kind;
        uint64_t at;
        uintptr_t code;
    };
    struct cell { access write, reads[2]; };
    struct watched {
        const char* start;
        size_t bytes;
        unsigned granule, number;
        cell* cells;
    };
    struct release { uint64_t all, own[1024]; };  // the moments up to which a block's writes are published

    template <class Each>
    CUDALAB_UNWATCHED void each(watched& one, size_t offset, size_t bytes, access fresh, Each&& does) {
        if (offset + bytes > one.bytes) bytes = one.bytes - offset;
        for (size_t from = offset; from < offset + bytes;) {
            const size_t start = from / one.granule * one.granule, end = start + one.granule;
            const size_t to = end < offset + bytes ? end : offset + bytes;
            fresh.low = uint8_t(from - start), fresh.high = uint8_t(to - start);
            if (!does(one.cells[start / one.granule], fresh)) return;
            from = to;
        }
    }
    CUDALAB_UNWATCHED void look(watched& one, size_t offset, size_t bytes, access fresh, bool writes) {
        in = &one;
        if (writes) {
            if (bytes > sizeof before) return;
            at = one.start + offset, change = fresh;
            memcpy(before, at, waiting = bytes);
            return;
        }
        each(one, offset, bytes, fresh, [&](cell& here, const access& read) {
            if (conflict(here.write, read, true, false)) return tell(here.write, "writes", read, "reads", bytes), false;
            access* const kept = here.reads;
            kept[!kept[0].block || (kept[0].block == read.block && kept[0].thread == read.thread) ? 0 : 1] = read;
            return true;
        });
    }
    CUDALAB_UNWATCHED bool conflict(const access& old, const access& fresh, bool old_writes, bool writes) const {
        if (!old.block || old.low >= fresh.high || fresh.low >= old.high) return false;
        const bool both = old.kind != plain && fresh.kind != plain;
        if (old.block != fresh.block && both) return old.kind == block_scope || fresh.kind == block_scope;
        if (both) return false;
        if ((!old_writes || !writes) && (old.kind != plain || fresh.kind != plain)) return false;
        if (old.block != fresh.block) return !(acquired && visible(old, old_writes));
        return old.epoch == fresh.epoch && old.thread != fresh.thread &&
               !(old.thread / 32 == fresh.thread / 32 && old.warp_epoch != fresh.warp_epoch);
    }
    CUDALAB_UNWATCHED bool visible(const access& old, bool old_writes) const {
        if (!old_writes || old.kind != plain) return true;
        const release* const of = published[old.block - 1];
        return of && (old.at <= of->all || old.at <= of->own[old.thread]);
    }
    CUDALAB_UNWATCHED void passed() {
        barrier_at = ++now;
        if (!fenced) return;
        memcpy(own_at_barrier, own, sizeof own);
        for (uint64_t one : all) all_at_barrier = one > all_at_barrier ? one : all_at_barrier;
    }
    CUDALAB_UNWATCHED void synchronize(unsigned thread) {
        acquired = true;
        if (!published) return;
        release*& mine = published[block];
        if (!mine && !(mine = static_cast<release*>(calloc(1, sizeof(release))))) return;
        if (!fenced) return;
        for (unsigned t = 0; t < 1024; ++t)
            if (own_at_barrier[t] > mine->own[t]) mine->own[t] = own_at_barrier[t];
        if (own[thread] > mine->own[thread]) mine->own[thread] = own[thread];
        if (all_at_barrier > mine->all) mine->all = all_at_barrier;
        if (all[thread] > mine->all) mine->all = all[thread];
    }
    CUDALAB_UNWATCHED static uint3 index(unsigned thread) {
        return {thread % blockDim.x, thread / blockDim.x % blockDim.y, thread / blockDim.x / blockDim.y};
    }
    CUDALAB_UNWATCHED static uint3 place_of(unsigned block) {
        return {block % gridDim.x, block / gridDim.x % gridDim.y, block / gridDim.x / gridDim.y};
    }
    CUDALAB_UNWATCHED void tell(const access& old, const char* did, const access& fresh, const char* does, size_t bytes) {
        const uint3 a = index(old.thread), b = index(fresh.thread), c = place_of(old.block - 1), d = place_of(fresh.block - 1);
        const bool both = old.kind != plain && fresh.kind != plain;
        const char* const why = old.block == fresh.block ? "without a barrier between them"
                                : both ? "and an atomic of block scope (_block) orders the threads of one block only"
                                : published[old.block - 1] && acquired
                                    ? "and the first one calls no __threadfence() between that and its flag or counter"
                                    : "and nothing orders the two blocks: use atomics, or a __threadfence() and a flag";
        current_failure->record("race on %zu bytes of global memory (#%u#): thread (%u,%u,%u) of block (%u,%u,%u) "
                                "%s at @%zx@, thread (%u,%u,%u) of block (%u,%u,%u) %s at @%zx@, %s", bytes,
                                in->number, a.x, a.y, a.z, c.x, c.y, c.z, did, size_t(old.code), b.x, b.y, b.z, d.x,
                                d.y, d.z, does, size_t(fresh.code), why);
    }
    CUDALAB_UNWATCHED bool outside(const watched& one, size_t offset, size_t bytes, bool writes, unsigned thread, uintptr_t code) {
        const uint3 a = index(thread);
        const long long element = (long long)offset / (long long)one.granule;
        current_failure->record("%s %zu bytes outside of an array (#%u#) at @%zx@: element %lld of %zu, block "
                                "(%u,%u,%u), thread (%u,%u,%u)%s", writes ? "writes" : "reads",
                                bytes, one.number, size_t(code), element, one.bytes / one.granule, blockIdx.x, blockIdx.y,
                                blockIdx.z, a.x, a.y, a.z, huge ? "; is an index of 32 bits too small?" : "");
        return false;
    }
    CUDALAB_UNWATCHED static void noted(const watched& one, size_t offset, size_t bytes, bool writes) {
        if (!writes) return;
        if (offset < written_first[one.number]) written_first[one.number] = offset;
        if (offset + bytes > written_last[one.number]) written_last[one.number] = offset + bytes;
    }

    watched area[33] = {};
    unsigned areas = 0, block = 0;
    size_t blocks = 0;
    release** published = nullptr;
    uint64_t left = 0;
    size_t reach = 0;
    uint64_t now = 0, barrier_at = 0, all_at_barrier = 0;
    bool huge = false, acquired = false, fenced = false;
    uint64_t own[1024] = {}, own_at_barrier[1024] = {}, all[1024] = {};
    uint32_t epoch = 1, warp_epoch[32] = {};
    char before[32];
    size_t waiting = 0;
    watched* in = nullptr;
    const char* at = nullptr;
    access change;
};
#endif

}  // namespace cudalab
