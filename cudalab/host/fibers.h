// Fiber mode: every CUDA thread has a stack of its own, and a scheduler decides which one runs.
//
// Each warp runs as far as it can before the next one starts, and inside a warp each lane before the next one: the
// least concurrency that CUDA allows. So a missing __syncthreads() or __syncwarp() gives a wrong answer. The launch's
// order (order.h) says which warp and lane are first; a shuffled one may also stop a warp between two warp operations.
#pragma once
#include <utility>

namespace cudalab {

enum class state : uint8_t { ready, at_block, at_warp, done, gone };  // gone: left through fail()

struct fiber {
    context where;
    uint3 index;
    state now;
    const char* file;      // where it waits
    unsigned line;
    bool vote;             // at a block barrier: the predicate
    unsigned operation;    // at a warp operation: which one (all lanes must be at the same one) ...
    unsigned mask;         // ... the lanes it waits for ...
    uint64_t offer;        // ... what it brings ...
    unsigned present;      // ... and, afterwards, which lanes took part and what each of them brought
    uint64_t settled;
};

template <auto kernel> struct one_thread;
template <class... A, void (*kernel)(A...)> struct one_thread<kernel> {
    template <size_t... i> static void unpack(void** arguments, std::index_sequence<i...>) {
        kernel(*static_cast<std::remove_const_t<A>*>(arguments[i])...);
    }
    static void run(void** arguments) { unpack(arguments, std::index_sequence_for<A...>{}); }
};
template <auto kernel> constexpr auto body_of = &one_thread<kernel>::run;  // runs one thread

constexpr unsigned activemask_operation = 0;

class block_runner {
public:
    using block_body = void (*)(void**);
    block_runner(block_body body, void** arguments, size_t shared, uint64_t order)
        : body(body), arguments(arguments), count(blockDim.x * blockDim.y * blockDim.z), shared_bytes(shared),
          order(order), stack(count) {
        fibers = static_cast<fiber*>(calloc(count, sizeof(fiber)));
        room = static_cast<char*>(aligned_alloc(128, (shared / 128 + 1) * 128 + 2 * shared_guard));
        if (!stack || !fibers || !room) {
            current_failure->record("no memory for %u threads of a block", count);
            return;
        }
        shared_memory = room + shared_guard;
        forbid(room, shared_guard);
        forbid(shared_memory + shared, shared_guard);
#if !CUDALAB_SANITIZE
        memset(shared_memory + shared, 0xff, shared_guard);
#endif
        for (unsigned t = 0; t < count; ++t) {
            fibers[t].index = {t % blockDim.x, t / blockDim.x % blockDim.y, t / blockDim.x / blockDim.y};
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
    ~block_runner() {
        running = nullptr;
        free(fibers);
        free(room);
    }

    // Returns false and records the reason if the block cannot end. The runner must not be used after that.
    bool run_block(uint64_t block) {
        turns turn(order, block);
        // Shared memory starts with arbitrary contents. All ones is NaN in every floating point format, but also a true
        // `bool`, an index below all others, and a value that a maximum ignores. So in one of the orders that a check
        // tries it is zeros, and in another close to the largest float.
        const int contents = turn.shuffled() ? 0 : order == forwards ? 0x7f : 0xff;
        memset(shared_memory, contents, shared_bytes);
        static_shared.spoil(contents);
        for (unsigned t = 0; t < count; ++t) fibers[t].now = state::ready;
#if CUDALAB_RACES
        races.barrier(), globals.start_block();
#endif
        const unsigned warps = (count + 31) / 32;
        bool stopped;
        do {
            uint8_t places[32];
            turn.fill(places, warps);
            stopped = false;
            for (unsigned i = 0; i < warps; ++i) stopped |= run_warp(32 * places[i], turn);
        } while (stopped || release_block());
#if CUDALAB_RACES
        globals.settle();
#endif
        return all_done();
    }

    // Records a failure if a block wrote past its dynamic shared memory, for example where the launch gives none.
    void check_shared_memory() const {
#if !CUDALAB_SANITIZE
        if (!shared_memory) return;
        const char *const end = shared_memory + shared_bytes, *last = end + shared_guard - 1;
        if (*end == '\xff' && !memcmp(end, end + 1, shared_guard - 1)) return;
        while (*last == '\xff') --last;
        current_failure->record("wrote up to %zu bytes past its dynamic shared memory of %zu bytes; give the Launch more: "
                                "shared=BYTES", size_t(last - end + 4) / 4 * 4, shared_bytes);
#endif
    }

#if CUDALAB_RACES
    race_watch races;
    CUDALAB_UNWATCHED void watch_shared_memory() {
        races.base = static_shared.base;
        globals.add_variables(static_shared.variables, static_shared.variables_bytes);
        races.add(shared_memory, shared_bytes);
        races.add(static_shared.start, static_shared.bytes);
        races.leave_out(&threadIdx, sizeof threadIdx), races.leave_out(&blockIdx, sizeof blockIdx);
        races.leave_out(&blockDim, sizeof blockDim), races.leave_out(&gridDim, sizeof gridDim);
        races.leave_out(&running, sizeof running), races.leave_out(&dynamic_shared_base, sizeof dynamic_shared_base);
        races.leave_out(&current_failure, sizeof current_failure), races.leave_out(&current_remark, sizeof current_remark);
        races.leave_out(&wanted_order, sizeof wanted_order);
    }
    global_watch globals;
    // Returns false where the thread must not make this access.
    CUDALAB_UNWATCHED bool touch(const void* address, size_t bytes, bool writes, unsigned strength, void* code) {
        if (!races.holds(address))
            return globals.touch(address, bytes, writes, strength, current, uintptr_t(code) - races.base);
        return races.touch(address, bytes, writes, strength != plain, current, fibers[current].index, code), true;
    }
#endif

    // ---- called by the CUDA threads ---------------------------------------------------------------------------------
    fiber& me() { return fibers[current]; }
    unsigned lane() const { return current % 32; }
    unsigned current_thread() const { return current; }
    const fiber& lane_mate(unsigned lane) const { return fibers[current / 32 * 32 + lane]; }
    void wait(state reason, const char* file = "", unsigned line = 0) {
        void* fake = nullptr;
        fiber& mine = me();
        mine.now = reason, mine.file = file, mine.line = line;
        leaving(&fake, scheduler_stack, scheduler_bytes);
        switch_to(me().where, scheduler);
        arrived(fake, nullptr, nullptr);
    }
    unsigned votes = 0, voters = 0;  // of the block barrier that was passed last

private:
    // Returns whether it was stopped where it could have continued.
    bool run_warp(unsigned first, turns& turn) {
        const unsigned lanes = count - first < 32 ? count - first : 32;
        do {
            uint8_t places[32];
            turn.fill(places, lanes);
            for (unsigned i = 0; i < lanes; ++i) {
                current = first + places[i];
                if (me().now != state::ready) continue;
                threadIdx = me().index;
                void* fake = nullptr;
                leaving(&fake, stack.of(current), stack_bytes);
                switch_to(scheduler, me().where);
                arrived(fake, nullptr, nullptr);
            }
            if (!release_warp(first, lanes)) return false;
#if CUDALAB_RACES
            races.warp_barrier(first / 32), globals.warp_barrier(first / 32);
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
                                  warp[other].operation == warp[lane].operation;
                if (same) present |= 1u << other;
                else complete = complete && any_will_do;
            }
            if (complete && !any_will_do) look_for_returned(warp, lane, lanes);
            if (complete) released |= settle(warp, present);
        }
        for (unsigned lane = 0; lane < lanes; ++lane)
            if (released >> lane & 1) warp[lane].now = state::ready;
        return released != 0;
    }

    // CUDA asks all lanes of the mask to come. One that has returned is forgiven, and may only have been quicker here.
    static void look_for_returned(const fiber* warp, unsigned lane, unsigned lanes) {
        const fiber& here = warp[lane];
        for (unsigned other = 0; other < lanes; ++other)
            if ((here.mask >> other & 1) && warp[other].now == state::done)
                return remark("%s:%u: block (%u,%u,%u): thread (%u,%u,%u) names thread (%u,%u,%u) in the mask 0x%08x of a "
                              "warp operation, which has returned without it; a GPU may still run that one", here.file, here.line, blockIdx.x,
                              blockIdx.y, blockIdx.z, here.index.x, here.index.y, here.index.z, warp[other].index.x,
                              warp[other].index.y, warp[other].index.z, here.mask);
    }

    // CUDA asks all threads of the block to come to the same barrier.
    void look_for_another_barrier() const {
        const fiber *here = nullptr, *other = nullptr;
        for (unsigned t = 0; t < count && !here; ++t)
            if (fibers[t].now == state::at_block) here = &fibers[t];
        for (unsigned t = 0; t < count && !other; ++t)
            if (fibers[t].now == state::done || fibers[t].line != here->line || strcmp(fibers[t].file, here->file))
                other = &fibers[t];
        if (!other) return;
        char where[300];
        if (other->now == state::done) snprintf(where, sizeof where, "has returned without it; CUDA asks all threads to come, "
                                           "and GPUs since Volta accept it");
        else snprintf(where, sizeof where, "at the one in %s:%u; CUDA leaves that undefined", other->file, other->line);
        remark("%s:%u: block (%u,%u,%u): thread (%u,%u,%u) waits at this barrier, and thread (%u,%u,%u) %s", here->file,
               here->line, blockIdx.x, blockIdx.y, blockIdx.z, here->index.x, here->index.y, here->index.z,
               other->index.x, other->index.y, other->index.z, where);
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
        if (!current_remark->happened()) look_for_another_barrier();
        voters = waiting;
        votes = votes_now;
#if CUDALAB_RACES
        races.barrier(), globals.barrier();
#endif
        for (unsigned t = 0; t < count; ++t)
            if (fibers[t].now == state::at_block) fibers[t].now = state::ready;
        return true;
    }

    bool all_done() const {
        unsigned number[5] = {};
        for (unsigned t = 0; t < count; ++t) ++number[unsigned(fibers[t].now)];
        if (number[unsigned(state::done)] == count) return true;
        current_failure->record(
            "block (%u,%u,%u) is stuck: of %u threads %u wait at a block barrier (__syncthreads), %u wait at a warp "
            "operation whose mask names lanes that do not come, %u have returned",
            blockIdx.x, blockIdx.y, blockIdx.z, count, number[unsigned(state::at_block)],
            number[unsigned(state::at_warp)], number[unsigned(state::done)]);
        return false;
    }

    // The first frame on every stack. It stays there from block to block.
    static void thread_main() {
        arrived(nullptr, &running->scheduler_stack, &running->scheduler_bytes);
        for (;;) {
            running->body(running->arguments);
            running->wait(state::done);
        }
    }

    block_body body;
    void** arguments;
    unsigned count, current = 0;
    size_t shared_bytes;
    uint64_t order;
    stacks stack;
    context scheduler;
    const void* scheduler_stack = nullptr;
    size_t scheduler_bytes = 0;
    fiber* fibers;
    char *room, *shared_memory = nullptr;
    static_shared_memory static_shared;
};

#if CUDALAB_RACES
CUDALAB_UNWATCHED inline void touched(const void* address, size_t bytes, bool writes, unsigned strength, void* code) {
    if (running && !running->touch(address, bytes, writes, strength, code)) leave_thread();
}
CUDALAB_UNWATCHED inline void fenced() {
    if (running) running->globals.fence(running->current_thread());
}
#endif

[[noreturn]] inline void leave_thread() {
    running->wait(state::gone);
    __builtin_unreachable();
}

}  // namespace cudalab

// ---- block barriers -------------------------------------------------------------------------------------------------
inline int __syncthreads_count(int predicate, CUDALAB_PLACE) {
    cudalab::running->me().vote = predicate != 0;
    cudalab::running->wait(cudalab::state::at_block, file, line);
    return int(cudalab::running->votes);
}
inline void __syncthreads(CUDALAB_PLACE) { __syncthreads_count(0, file, line); }
inline int __syncthreads_or(int predicate, CUDALAB_PLACE) { return __syncthreads_count(predicate, file, line) != 0; }
inline int __syncthreads_and(int predicate, CUDALAB_PLACE) {
    return unsigned(__syncthreads_count(predicate, file, line)) == cudalab::running->voters;
}
