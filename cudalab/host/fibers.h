// Fiber mode: every CUDA thread has a stack of its own, and a scheduler decides which one runs.
//
// Each warp runs as far as it can before the next one starts, and inside a warp each lane before the next one: the
// least concurrency that CUDA allows. So a missing __syncthreads() or __syncwarp() gives a wrong answer. The launch's
// order (order.h) says which warp and lane are first; a shuffled one may also stop a warp between two warp operations.
#pragma once
#include "fiber.h"
#include "waiting.h"

namespace cudalab {

struct awaited_copies;
const char* room_behind_arrays();  // of the static shared arrays of the kernel: nobody uses it

class block_runner {
public:
    // A block of a `gang` gets its stacks from there.
    block_runner(kernel_body body, void** arguments, size_t shared, uint64_t order, crowd& workers, gang* others = nullptr,
                 char* given = nullptr)
        : others(others), body(body), arguments(arguments), count(blockDim.x * blockDim.y * blockDim.z),
          shared_bytes(shared), order(order), workers(workers), stack(count, given) {
        fibers = static_cast<fiber*>(calloc(count, sizeof(fiber)));
        room = static_cast<char*>(aligned_alloc(128, (shared / 128 + 1) * 128 + 2 * shared_guard));
        if (!stack || !fibers || !room) {
            current_outcome->failed.record("no memory for %u threads of a block", count);
            return;
        }
        shared_memory = room + shared_guard;
        forbid(room, shared_guard);
        forbid(shared_memory + shared, shared_guard);
#if !CUDALAB_SANITIZE
        memset(shared_memory + shared, 0xff, shared_guard);
#endif
        for (unsigned t = 0; t < count; ++t) {
            fibers[t].index = thread_at(t);
            // Tops are staggered: at equal offsets in a page they would compete for the same few cache lines.
            start(fibers[t].where, stack.of(t), stack_bytes - t % 64 * 64, thread_main);
        }
        running = this;
        dynamic_shared_base = shared_memory;
#if CUDALAB_RACES
        watch_shared_memory();
#endif
#if CUDALAB_SANITIZE
        shared_start = shared_memory;
        shared_size = shared;
#endif
    }
    ~block_runner();

    // Returns false and records the reason if the block cannot end. The runner must not be used after that.
    bool run_block(uint64_t block) {
        turns turn(order, block);
        memset(shared_memory, turn.undefined(), shared_bytes);
        static_shared.spoil(turn.undefined());
        set_dynamic_arrays();
        begin(turn);
        advance(turn);
        return all_done();
    }

    void begin(const turns& turn);

    // Runs the block as far as it can, which is to its end unless it waits for other blocks.
    void advance(turns& turn) {
        const unsigned warps = (count + 31) / 32;
        bool stopped;
        do {
            uint8_t places[32];
            turn.fill(places, warps);
            stopped = false;
            for (unsigned i = 0; i < warps; ++i) stopped |= run_warp(32 * places[i], turn);
            if (others && interrupted) {  // another block of the gang runs next
                changed_in(*others);
                break;
            }
        } while (stopped || release_block() || look_again());
        interrupted = false;
#if CUDALAB_RACES
        globals->settle();
#endif
    }

    // Records a failure if a block wrote past its dynamic shared memory, for example where the launch gives none.
    void check_shared_memory() const {
#if !CUDALAB_SANITIZE
        if (!shared_memory) return;
        const char *const end = shared_memory + shared_bytes, *last = end + shared_guard - 1;
        if (*end == '\xff' && !memcmp(end, end + 1, shared_guard - 1)) return;
        while (*last == '\xff') --last;
        current_outcome->failed.record("wrote up to %zu bytes past its dynamic shared memory of %zu bytes; give the Launch more: "
                                "shared=BYTES", size_t(last - end + 4) / 4 * 4, shared_bytes);
#endif
    }

#if CUDALAB_RACES
    race_watch races;
    CUDALAB_UNWATCHED void watch_shared_memory() {
        races.base = static_shared.base;
        if (others) globals = globals_of(*others);
        else (globals = new global_watch)->begin(static_shared.variables, static_shared.variables_bytes);
        races.add(shared_memory, shared_bytes);
        races.add(static_shared.start, static_shared.bytes), races.mark_gaps(static_shared.start);
        races.leave_out(&threadIdx, sizeof threadIdx), races.leave_out(&blockIdx, sizeof blockIdx);
        races.leave_out(&blockDim, sizeof blockDim), races.leave_out(&gridDim, sizeof gridDim);
        races.leave_out(&running, sizeof running), races.leave_out(&dynamic_shared_base, sizeof dynamic_shared_base);
        races.leave_out(&current_outcome, sizeof current_outcome), races.leave_out(&wanted_order, sizeof wanted_order);
    }
    global_watch* globals = nullptr;  // shared with the gang
    global_watch::block_state view;
    // Returns false where the thread must not make this access.
    CUDALAB_UNWATCHED bool touch(const void* address, size_t bytes, bool writes, unsigned strength, void* code) {
        if (!in_thread) return true;
        preempt(address, bytes);
        globals->past_l1 = !writes && size_t(static_cast<const char*>(address) - me().past_l1) < me().past_l1_bytes;
        const bool shared = races.holds(address);
        // Plain accesses to other memory may be the scheduler's own.
        if (const void* const looked = handed.looked(current); looked && (strength != plain || shared || globals->holds(address))) {
            if (races.holds(looked)) globals->hears(current);
            handed.goes_on(current);
        }
        if (size_t(static_cast<const char*>(address) - room_behind_arrays()) < room_bytes) return beyond_arrays(address, bytes, writes, code);
        if (strength != plain && shared) globals->hears(current);
        if (strength != plain) races.flush(), globals->settle(), handed.atomic(current, address, bytes, writes);
        if (shared || others) {
            const access now = races.made_by(current, others ? phase_of(*others) : 0, strength != plain, code);
            if (shared) return races.touch(address, address, bytes, writes, now), true;
            if (touch_in(*others, address, bytes, writes, now)) return true;
        }
        return globals->touch(address, bytes, writes, strength, current, uintptr_t(code) - races.base);
    }
    CUDALAB_UNWATCHED bool beyond_arrays(const void* address, size_t bytes, bool writes, const void* code) {
        const uint3 a = me().index;
        current_outcome->failed.record("%s %zu bytes outside an array: %zu bytes beyond its static shared arrays, at @%zx@, "
                                "block (%u,%u,%u), thread (%u,%u,%u)", writes ? "writes" : "reads", bytes,
                                size_t(static_cast<const char*>(address) - room_behind_arrays()), size_t(code) - size_t(races.base),
                                blockIdx.x, blockIdx.y, blockIdx.z, a.x, a.y, a.z);
        return false;
    }
    CUDALAB_UNWATCHED void leave(const void* address, size_t bytes, bool writes, const void* code) {
        if (!in_thread) return;
        *last = {uintptr_t(code) - static_shared.base, uintptr_t(address), bytes, writes, current,
                 {blockIdx.x, blockIdx.y, blockIdx.z}};
    }
    // Nothing else happens before this access to memory.
    CUDALAB_UNWATCHED void reads(const void* address, size_t bytes) {
        if (in_thread) globals->find_earlier(address, bytes, current, workers.alone());
    }
    // In a shuffled order other threads may run before an access, such as one between the two halves of `x += 1`.
    CUDALAB_UNWATCHED void preempt(const void* address, size_t bytes) {
        if (landing || !coins.shuffled() || me().preempted == most_preemptions || bytes == 1) return;
        if (!races.watches(address) && !globals->holds(address)) return;
        if (++me().preempted % 2 == 0 || !coins.coin()) return;
        interrupted = true;
        wait(state::ready, me().file, me().line);
    }
    CUDALAB_UNWATCHED void fence(bool of_block) {
        handed.goes_on(current), handed.fence(current);
        if (!of_block) globals->fence(current);
        if (!of_block && others) order_in(*others);
    }
    CUDALAB_UNWATCHED void took(const void* address) { globals->took(address, current); }
    handovers handed{blockDim.x * blockDim.y * blockDim.z};
#endif

    // ---- called by the CUDA threads ---------------------------------------------------------------------------------
    CUDALAB_UNWATCHED fiber& me() { return fibers[current]; }
    unsigned lane() const { return current % 32; }
    const fiber& lane_mate(unsigned lane) const { return fibers[current / 32 * 32 + lane]; }
    void wait(state reason, const char* file = "", unsigned line = 0) { leave(waiting(reason, file, line)); }
    fiber& waiting(state reason, const char* file, unsigned line);  // this thread, which is to leave now
    // Inlined into the kernel: each function that returned after the switch, to another stack than it was called on, would
    // be predicted wrong.
    void leave(fiber& mine) {
        void* fake = nullptr;
        leaving(&fake, scheduler_stack, scheduler_bytes);
        switch_to(mine.where, scheduler);
        arrived(fake, nullptr, nullptr);
    }
    unsigned votes = 0, voters = 0;  // of the block barrier that was passed last
    bool landing = false;            // copies of a phase that has ended: no other thread runs before all have landed
    gang* const others;              // the blocks that live at the same time; null: none

    // ---- called by gang.h -------------------------------------------------------------------------------------------
    explicit operator bool() const { return shared_memory; }
    unsigned threads() const { return count; }
    fiber& thread(unsigned t) { return fibers[t]; }
    CUDALAB_UNWATCHED char* dynamic_memory() const { return shared_memory; }
    CUDALAB_UNWATCHED size_t dynamic_bytes() const { return shared_bytes; }
    CUDALAB_UNWATCHED static_shared_memory& statics() { return static_shared; }
    bool ended() const {
        for (unsigned t = 0; t < count; ++t)
            if (fibers[t].now != state::done) return false;
        return true;
    }
    bool all_done() const { return nobody_waits(fibers, count); }

    bool tells_who_looks(bool blocks_left) const { return tell_who_looks(fibers, count, blocks_left, module_base()); }
    bool left() const {  // through fail()
        for (unsigned t = 0; t < count; ++t)
            if (fibers[t].now == state::gone) return true;
        return false;
    }

    // This thread looks at memory that others may change, and finds this value; address 0: it does not say at what.
    // After a few times it lets others run.
    void looked(const void* address, uint64_t value, const void* code);
    void changed() { ++changes; }
    // This thread is about to store to volatile memory. The value that is there already is no change.
    CUDALAB_UNWATCHED void stores(const void* address, size_t bytes) {
        settle_store(), stored = {address, bytes, digest(address, bytes)};
    }
    CUDALAB_UNWATCHED void settle_store() {
        if (stored.address && digest(stored.address, stored.bytes) != stored.before) changed();
        stored.address = nullptr;
    }
    // A thread goes on, maybe to look again at memory that has not changed.
    void passed() { ++passes; }
    bool looks_again() const { return quiet < most_quiet; }
    // What was before is in order with what comes: a phase of a barrier has ended, for example.
    void in_order() {
#if CUDALAB_RACES
        races.barrier(), globals->in_order();
        if (others) order_in(*others);
#endif
    }
    // Before an atomic operation, in a shuffled order: other threads may make theirs first, also between a read of this one
    // and the operation. A few times, since a loop that tries again each time would take the square of the threads.
    void contend();
    uint64_t undefined_value();  // of a lane that takes no part in a shuffle, which this thread reads
    bool coin() { return coins.shuffled() && coins.coin(); }
    copy_queue& copies();       // asynchronous ones of this thread
    awaited_copies& awaited();  // and what barriers wait for
    double* room_of_warp();     // for the matrices of include/mma.h

    // Returns when `until` holds for this object of the block's own.
    void wait_until(bool (*until)(const void*, uint64_t), const void* object, uint64_t value, const char* file, unsigned line);
    bool shares(const void* address) const {
        const char* const at = static_cast<const char*>(address);
        if (size_t(at - shared_memory) < shared_bytes) return true;
#if CUDALAB_SANITIZE || !defined(__linux__)
        return false;
#else
        return size_t(at - static_shared.start) < static_shared.bytes;
#endif
    }
    uintptr_t module_base() const {
#if CUDALAB_SANITIZE || !defined(__linux__)
        return 0;
#else
        return static_shared.base;
#endif
    }

private:
    // A value that is new to the thread is a change: it does not wait, or no longer. So is an address beyond all others. Of
    // one between them it may be that it has been forgotten.
    void note(fiber& mine, const void* address, uint64_t value) {
        for (auto& one : mine.seen)
            if (one.address == address) {
                if (one.value != value) changed();
                else quiet = 0;
                one.value = value;
                return;
            }
        mine.seen[mine.next_seen++ % 16] = {address, value};
        const auto at = uintptr_t(address);
        if (at < mine.lowest || at > mine.highest) changed();
        else passed(), quiet = 0;
        mine.lowest = std::min(mine.lowest, at), mine.highest = std::max(mine.highest, at);
    }

    // No warp can continue. Wakes the threads whose condition holds, and those that look at memory again and again. Where
    // these find nothing new, it is not sure that the others of their warp or block get anywhere when they pass a barrier
    // with them.
    bool look_again() {
        settle_store();
#if CUDALAB_RACES
        globals->settle();
#endif
        unsigned looking = 0, woken = 0, unsure = passes != passes_before;
        for (unsigned t = 0; t < count; ++t) {
            fiber& one = fibers[t];
            if (one.now == state::until && one.until(one.object, one.value)) one.now = state::ready, ++woken;
            else if (one.now == state::looks) ++looking, unsure += one.unsure;
        }
        quiet += looks_again();
        if (!(woken + looking) || current_outcome->failed.happened()) return false;
        passes_before = passes, unsure += woken;
        if (changes != changes_before || (woken && !looks_again())) {
            changes_before = changes;
            if (others) changed_in(*others);
            else workers.changed(mine);
        } else if (others) {  // another block of the gang runs next
            wake_looking();
            wait_in(*others, !unsure);
            return false;
        } else if (!workers.waited(mine, count, !unsure)) {
            tell_who_looks(fibers, count, workers.blocks_left(workers.job), module_base());
            return false;
        }
        wake_looking();
        return true;
    }
    static bool meets(state now) { return now == state::at_warp || now == state::at_block || now == state::at_group; }
    void wake_looking() {
        for (unsigned t = 0; t < count; ++t)
            if (fibers[t].now == state::looks) fibers[t].now = state::ready, fibers[t].looked_last = true;
            else fibers[t].looked_last = false;
    }
    void tell_undefined(report& fresh);
    static constexpr unsigned most_quiet = 64;
    static constexpr unsigned most_interruptions = 32, surely_interrupted = 4, most_preemptions = 255;
    static void changed_in(gang& blocks);  // in gang.h
    static void wait_in(gang& blocks, bool sure);
#if CUDALAB_RACES
    static global_watch* globals_of(gang& blocks);
    static uint32_t phase_of(const gang& blocks);
    static void order_in(gang& blocks);
    static bool touch_in(gang& blocks, const void* address, size_t bytes, bool writes, const access& now);
#endif

    // Returns whether it was stopped where it could have continued.
    bool run_warp(unsigned first, turns& turn) {
        const unsigned lanes = count - first < 32 ? count - first : 32;
        do {
            bool ready = false;
            uint8_t places[32];
            turn.fill(places, lanes);
            for (unsigned i = 0; i < lanes; ++i) {
                current = first + places[i];
                if (me().now != state::ready) continue;
                threadIdx = me().index;
                void* fake = nullptr;
                leaving(&fake, stack.of(current), stack_bytes);
                in_thread = true;
                switch_to(scheduler, me().where);
                in_thread = false;
                arrived(fake, nullptr, nullptr);
                (meets(me().now) ? passes : changes) += me().now != state::looks && me().now != state::until;
                ready |= me().now == state::ready;
            }
            if (!release_warp(first, lanes)) return ready;
#if CUDALAB_RACES
            races.warp_barrier(first / 32), globals->warp_barrier(first / 32), handed.warp_barrier(first / 32);
#endif
        } while (!turn.shuffled() || turn.coin());
        return true;
    }

    // Every lane has run as far as it can. Complete the warp operations that all their lanes have reached.
    bool release_warp(unsigned first, unsigned lanes) {
        fiber* const warp = fibers + first;
        unsigned released = 0;
        for (unsigned lane = 0; lane < lanes; ++lane) {
            if (warp[lane].now != state::at_warp || (released >> lane & 1)) continue;
            const bool any_will_do = warp[lane].operation == activemask_operation;
            bool complete = true;
            unsigned present = 0;
            for (unsigned other = 0; other < lanes; ++other) {
                if (!(warp[lane].mask >> other & 1) || warp[other].now == state::done) continue;
                const bool same = warp[other].now == state::at_warp && warp[other].mask == warp[lane].mask &&
                                  warp[other].operation == warp[lane].operation &&
                                  (!any_will_do || warp[other].line == warp[lane].line);
                if (same) present |= 1u << other;
                else complete = complete && any_will_do;
            }
            if (complete) released |= settle(warp, present);
        }
        for (unsigned lane = 0; lane < lanes; ++lane)
            if (released >> lane & 1) warp[lane].now = state::ready;
        return released != 0;
    }

    // Offers are copied before any lane continues: a fast lane may make its next offer while a slow one still reads.
    static unsigned settle(fiber* warp, unsigned present) {
        for (unsigned lane = 0; lane < 32; ++lane)
            if (present >> lane & 1) {
                warp[lane].present = present;
                warp[lane].settled = warp[lane].offer;
            }
        return present;
    }

    // A block barrier waits for all threads that have not returned.
    bool release_block() {
        unsigned waiting = 0, votes_now = 0;
        for (unsigned t = 0; t < count; ++t) {
            if (fibers[t].now == state::done) continue;
            if (fibers[t].now != state::at_block) return false;
            ++waiting;
            votes_now += fibers[t].vote;
        }
        if (!waiting) return false;
        if (!current_outcome->remarked.happened()) look_for_another_barrier(fibers, count);
        voters = waiting;
        votes = votes_now;
#if CUDALAB_RACES
        races.barrier(), globals->barrier();
#endif
        for (unsigned t = 0; t < count; ++t)
            if (fibers[t].now == state::at_block) fibers[t].now = state::ready;
        return true;
    }

    static void thread_main();

    kernel_body body;
    void** arguments;
    unsigned count, current = 0;
    size_t shared_bytes;
    uint64_t order;
    crowd& workers;
    crowd::member mine;
    unsigned long long changes = 0, changes_before = 0;  // that threads of this block made, to memory or by going on
    unsigned long long passes = 0, passes_before = 0;  // what may be a change or not: a collective operation, for example
    unsigned quiet = most_quiet;  // rounds since a thread looked at memory in vain, up to `most_quiet`
    turns coins{alternating};
    struct { const void* address; size_t bytes; uint64_t before; } stored = {};  // the last store to volatile memory
    bool interrupted = false;  // a thread, before an access, since the block was entered
    bool in_thread = false;    // a CUDA thread runs, not the scheduler
    awaited_copies* awaiting = nullptr;
    double* tiles = nullptr;
    stacks stack;
    context scheduler;
    const void* scheduler_stack = nullptr;
    size_t scheduler_bytes = 0;
    fiber* fibers;
    char *room, *shared_memory = nullptr;
    static_shared_memory static_shared;
};

[[noreturn]] inline void leave_thread() {
    running->wait(state::gone);
    __builtin_unreachable();
}

void looked(const void* address, uint64_t value);  // a thread looked at memory that others may change
inline void changed() {
    if (running) running->changed();
}
inline void contend() {
    if (running) running->contend();
}
// What this thread did before is in order with what others do after they have seen it, so it is no race (races.h).
inline void in_order(bool synchronizes) {
    if (synchronizes && running) running->in_order();
}

}  // namespace cudalab
