// Finds races on global memory: two threads use the same bytes, one of them changes them, and nothing orders the two.
// The threads of a block are ordered by barriers and locks, as in races.h. Blocks are ordered by a fence and an atomic access: the
// writer calls __threadfence() and then makes an atomic (or volatile) access, the reader makes one before it reads.
//
// Blocks may run one after another here, so that a block's values are always there for the next one. What counts is whether
// CUDA promises them. Where a pattern could be right, it counts as right: a plain read beside atomic changes is no race, an
// atomic operation that counts up to the last of several blocks acquires what all blocks have published until another block last
// changed that address (flags.h), for the other threads of its block after a barrier, and an operation of a warp orders like a
// barrier. An access that only looks (a volatile read, an atomicAdd() of 0), one that takes a lock (`taking` in atomics.h), and a
// relaxed one of cuda::atomic, acquires with a fence behind it; until then a plain read may find what L1 has kept, and all other
// accesses (__ldcg, a store) find what was published.
//
// Two volatile accesses are no race, but a value that is written without a fence behind it may be seen late, after a counter
// or flag of its block. So the first read of another block finds the value of before; what has been seen once is there for all.
// Where the result depends on it, it is wrong.
#pragma once

namespace cudalab {

#if CUDALAB_RACES
struct place { const void* start; size_t bytes; unsigned granule; };
inline place wanted_places[32];  // the arrays that the next launch watches
inline unsigned wanted_count;
inline bool wanted_huge;                       // reserved arrays: look for addresses beside them, not for races
inline size_t written_up_to[32];               // of reserved arrays: in bytes
// How an instruction read a reserved array, in the blocks at both ends of the grid.
struct reader {
    uintptr_t code;
    unsigned array;
    size_t end;                 // up to which byte
    size_t block, least, before;  // the block that read last, its first byte, and that of the block before it
    bool late;                  // whether the last blocks are among them
    bool moved;                 // whether blocks before this one began at unlike bytes
    CUDALAB_UNWATCHED bool moves() const { return moved || (before != ~size_t(0) && least != before); }
};
inline reader readers[256];
inline unsigned reader_count;
inline bool atomics_seen;  // of a launch on reserved arrays: blocks may take their numbers from a counter
inline uint64_t wanted_accesses = ~0ull;       // after so many the launch gives up
inline size_t wanted_reach;                    // bytes on both sides of each array that nothing else has
constexpr unsigned variables = 999;           // the number of the module's variables in a message

class global_watch : public known_writes {
public:
    // Watch the arrays of the launch and the module's own variables.
    CUDALAB_UNWATCHED void begin(const char* own_variables, size_t variables_bytes) {
        left = wanted_accesses, reach = wanted_reach, huge = wanted_huge;
        for (unsigned i = 0; i < wanted_count; ++i) add(wanted_places[i], i);
        if (!huge && variables_bytes <= 1u << 20) add({own_variables, variables_bytes, 4}, variables);
        blocks = size_t(gridDim.x) * gridDim.y * gridDim.z;
        if (!huge && !known_writes::begin(blocks)) areas = 0;
    }
    CUDALAB_UNWATCHED ~global_watch() {
        for (const watched& one : area) free(one.cells);
    }
    CUDALAB_UNWATCHED void add(const place& one, unsigned number) {
        const size_t cells = huge ? 0 : (one.bytes + one.granule - 1) / one.granule;
        if (areas == sizeof area / sizeof *area || !one.bytes) return;
        area[areas] = {static_cast<const char*>(one.start), one.bytes, one.granule, number, nullptr};
        if (!cells || (area[areas].cells = static_cast<cell*>(calloc(cells, sizeof(cell))))) ++areas;
    }
    // This block runs next.
    CUDALAB_UNWATCHED void enter(block_state& one) { settle(), my = &one; }
    // These come after the last access.
    CUDALAB_UNWATCHED void barrier() { settle(), known_writes::barrier(); }
    CUDALAB_UNWATCHED void warp_barrier(unsigned warp) { settle(), known_writes::warp_barrier(warp); }
    CUDALAB_UNWATCHED void in_order() { settle(), known_writes::in_order(); }
    CUDALAB_UNWATCHED void group_barrier() { settle(), known_writes::group_barrier(); }
    CUDALAB_UNWATCHED void fence(unsigned thread) { settle(), known_writes::fence(thread); }
    CUDALAB_UNWATCHED bool holds(const void* address) const {
        for (unsigned i = 0; i < areas; ++i)
            if (size_t(static_cast<const char*>(address) - area[i].start) < area[i].bytes) return true;
        return false;
    }
    // Returns false where the thread must not make this access.
    CUDALAB_UNWATCHED bool touch(const void* address, size_t bytes, bool writes, unsigned kind, unsigned thread, uintptr_t code) {
        settle();
        if (kind != plain && !follow()) return false;
        atomics_seen |= kind != plain;
        if (!writes || kind != plain) hear(thread, address);
        if (kind != plain && kind != relaxed) {
            seen_by(thread, 1);
            if (!writes) my->looking += !my->looks[thread], my->looks[thread] = address;
        }
        if (kind != plain && !huge) {
            publish(thread);
            if (writes) changed.changed(address, my->block, now);
        }
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
            if (kind == plain || kind == relaxed) seen_by(thread, 1);
            if (huge) return writes ? note_write(area[i], offset, bytes) : note_read(area[i], offset, bytes, code), true;
            look(area[i], offset, bytes, {my->block + 1, my->epoch, my->warp_epoch[thread / 32], uint16_t(thread), 0, 0, kind,
                                          ++now, handed_over().now(), code}, writes);
            return true;
        }
        if (beside) return outside(*beside, static_cast<const char*>(address) - beside->start, bytes, writes, thread, code);
        return true;
    }
    bool past_l1 = false;  // the access that is looked at is a read past L1
    // After an access, before anything else happens.
    CUDALAB_UNWATCHED void settle() {
        if (late.bytes) memcpy(late.at, late.value, late.bytes), late.bytes = 0;
        const size_t bytes = waiting;
        waiting = 0;
        if (!bytes || (change.kind == plain && !memcmp(before, at, bytes))) return;
        each(*in, size_t(at - in->start), bytes, change, [&](cell& one, const access& fresh) CUDALAB_UNWATCHED {
            if (conflict(one.write, fresh, true, true)) return tell(one.write, "writes", fresh, "writes", bytes), false;
            for (const access& read : one.reads)
                if (conflict(read, fresh, false, true)) return tell(read, "reads", fresh, "writes", bytes), false;
            if (one.write.block != fresh.block || one.write.kind != plain || fresh.kind == plain ||
                one.write.thread != fresh.thread) one.write = fresh, note_earlier(one, fresh, bytes);
            return true;
        });
    }
    // The last thing before a read: let it find the earlier value, if it is the first one of another block and may come before
    // that block's write, for all that orders the two. `alone`: one worker of the operating system runs all blocks, so that
    // no other one may write before the value is put back.
    CUDALAB_UNWATCHED void find_earlier(const void* address, size_t bytes, unsigned thread, bool alone) {
        for (unsigned i = 0; unseen && !huge && i < areas; ++i) {
            const size_t offset = static_cast<const char*>(address) - area[i].start;
            if (offset >= area[i].bytes) continue;
            each(area[i], offset, bytes, {}, [&](cell& one, const access& part) CUDALAB_UNWATCHED {
                if (!one.bytes || one.write.block == my->block + 1) return true;
                const bool whole = one.bytes == bytes && size_t(part.high - part.low) == bytes;
                if (alone && whole && !is_there(one.write, thread)) {
                    late.at = const_cast<char*>(area[i].start) + offset, late.bytes = bytes;
                    memcpy(late.value, late.at, bytes), memcpy(late.at, one.earlier, bytes);
                }
                one.bytes = 0, --unseen;
                return true;
            });
        }
    }

private:
    // Whether to follow one more access of a thread. Plain accesses outside of the arrays may be the scheduler's own.
    // After too many a launch on reserved arrays ends, and another one runs to its end unwatched.
    CUDALAB_UNWATCHED bool follow() {
        if (left) return --left, true;
        if (!huge) return areas = 0, true;
        return current_outcome->failed.record("%smore accesses than the race check can follow", gave_up), false;
    }
    struct cell {
        access write, reads[2];
        char earlier[8];  // what was there before a volatile write that no other block has seen
        uint8_t bytes;    // of it; 0: there is none
    };
    struct watched {
        const char* start;
        size_t bytes;
        unsigned granule, number;
        cell* cells;
    };
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
        each(one, offset, bytes, fresh, [&](cell& here, const access& read) CUDALAB_UNWATCHED {
            if (conflict(here.write, read, true, false)) return tell(here.write, "writes", read, "reads", bytes), false;
            access* const kept = here.reads;
            kept[!kept[0].block || (kept[0].block == read.block && kept[0].thread == read.thread) ? 0 : 1] = read;
            return true;
        });
    }
    CUDALAB_UNWATCHED void note_earlier(cell& one, const access& fresh, size_t bytes) {
        const bool whole = fresh.kind == volatile_access && bytes == in->granule && bytes <= sizeof one.earlier;
        unseen += whole, unseen -= one.bytes != 0;
        one.bytes = whole ? uint8_t(bytes) : 0;
        if (whole) memcpy(one.earlier, before, bytes);
    }
    CUDALAB_UNWATCHED bool conflict(const access& old, const access& fresh, bool old_writes, bool writes) const {
        if (!old.block || old.low >= fresh.high || fresh.low >= old.high) return false;
        const bool both = old.kind != plain && fresh.kind != plain;
        if (old.block != fresh.block && both)
            return (old.kind == block_scope || fresh.kind == block_scope) && !is_acquired(old, fresh.thread);
        if (both) return false;
        if ((!old_writes || !writes) && (old.kind != plain || fresh.kind != plain)) return false;
        if (old.block != fresh.block) {
            const bool from_l1 = fresh.kind == plain && !writes && !past_l1;
            return !visible(old, old_writes, fresh.thread, my->acquired) && (from_l1 || !visible(old, old_writes, fresh.thread, my->told));
        }
        return old.epoch == fresh.epoch && old.thread != fresh.thread &&
               !(old.thread / 32 == fresh.thread / 32 && old.warp_epoch != fresh.warp_epoch) &&
               !handed_over().in_order(old.thread, old.moment, old_writes, fresh.thread);
    }
    CUDALAB_UNWATCHED void tell(const access& old, const char* did, const access& fresh, const char* does, size_t bytes) {
        const uint3 a = thread_at(old.thread), b = thread_at(fresh.thread), c = block_at(old.block - 1), d = block_at(fresh.block - 1);
        const bool both = old.kind != plain && fresh.kind != plain;
        const char* const why = old.block == fresh.block ? "without a barrier between them"
                                : both ? "and an atomic of block scope (_block) orders the threads of one block only"
                                : is_published(old) && others_acquired(fresh.thread)
                                    ? "and only other threads of the second block have seen the first one's flag or counter: "
                                      "a __syncthreads() must follow"
                                : is_published(old) && !is_told(old, my->heard)
                                    ? "and the second block took no notice of the first one's flag or counter: wait for the one that it "
                                      "changes behind a __threadfence()"
                                : is_published(old)
                                    ? "and the second block took no notice of the first one's flag or counter or lock: load it "
                                      "with cuda::memory_order_acquire, or call __threadfence() after it"
                                : published[old.block - 1] && my->acquired[fresh.thread]
                                    ? "and the first block may set its flag or counter before the write is visible: call "
                                      "__threadfence() between them, after a __syncthreads() if another thread sets it"
                                    : "and nothing orders the two blocks: is the index of one of them beyond its own elements? else use "
                                      "atomics, or a __threadfence() and a flag";
        const bool stores = old.block == fresh.block && old.kind == plain && fresh.kind == plain;
        current_outcome->failed.record("race on %zu bytes of global memory (#%u#): thread (%u,%u,%u) of block (%u,%u,%u) "
                                "%s at @%zx@, thread (%u,%u,%u) of block (%u,%u,%u) %s at @%zx@, %s%s", bytes,
                                in->number, a.x, a.y, a.z, c.x, c.y, c.z, did, size_t(old.code), b.x, b.y, b.z, d.x, d.y,
                                d.z, does, size_t(fresh.code), why, of_stores(did, does, stores));
    }
    CUDALAB_UNWATCHED bool outside(const watched& one, size_t offset, size_t bytes, bool writes, unsigned thread, uintptr_t code) {
        const uint3 a = thread_at(thread);
        const long long element = (long long)offset / (long long)one.granule;
        current_outcome->failed.record("%s %zu bytes outside an array (#%u#) at @%zx@: element %lld of %zu, block "
                                "(%u,%u,%u), thread (%u,%u,%u)%s", writes ? "writes" : "reads",
                                bytes, one.number, size_t(code), element, one.bytes / one.granule, blockIdx.x, blockIdx.y,
                                blockIdx.z, a.x, a.y, a.z, huge ? "; is a 32-bit index too small?" : "");
        return false;
    }
    CUDALAB_UNWATCHED static void note_write(const watched& one, size_t offset, size_t bytes) {
        if (offset + bytes > written_up_to[one.number]) written_up_to[one.number] = offset + bytes;
    }
    CUDALAB_UNWATCHED void note_read(const watched& one, size_t offset, size_t bytes, uintptr_t code) {
        if (one.number == variables) return;
        unsigned i = 0;
        while (i < reader_count && (readers[i].code != code || readers[i].array != one.number)) ++i;
        if (i == sizeof readers / sizeof *readers) return;
        const size_t number = (size_t(blockIdx.z) * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
        reader& here = readers[i];
        if (i == reader_count) here = {code, one.number, 0, number, offset, ~size_t(0), false, false}, ++reader_count;
        if (here.block != number) {
            here.moved = here.moves(), here.before = here.least, here.least = offset, here.block = number;
        }
        if (offset < here.least) here.least = offset;
        here.late |= number >= blocks / 2;
        if (offset + bytes > here.end) here.end = offset + bytes;
    }

    watched area[33] = {};
    unsigned areas = 0;
    uint64_t left = 0;
    size_t reach = 0;
    bool huge = false;
    char before[32];
    size_t waiting = 0;
    watched* in = nullptr;
    const char* at = nullptr;
    access change;
    struct { char* at; size_t bytes; char value[8]; } late = {};  // what to put back after a read
    size_t unseen = 0;  // volatile writes that no other block has seen
};
#endif

}  // namespace cudalab
