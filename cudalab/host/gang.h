// Blocks that live at the same time: those of a cluster, all blocks of a cooperative launch, or some that may get in each
// other's way (`loose`). They run in turn on one operating system thread; each runs until it ends, waits for the others, or
// is interrupted before an atomic operation. Static shared arrays are thread-local
// variables, so those of the blocks that do not run lie in copies, which is where their neighbours find them.
#pragma once

namespace cudalab {

enum group : uint8_t { of_cluster, of_grid };
static const char* const barrier_names[] = {"the cluster's barrier", "grid.sync()"};

class gang {
public:
    // `first`: the place of its first block in the grid, in blocks; `size`: how many in x, y and z.
    gang(kernel_body body, void** arguments, size_t shared, uint64_t order, crowd& workers, uint3 size,
         uint3 cluster, bool cooperative, bool is_loose)
        : order(order), workers(workers), size(size), cluster(cluster), cooperative(cooperative), is_loose(is_loose),
          count(size.x * size.y * size.z) {
        const size_t each = size_t(blockDim.x) * blockDim.y * blockDim.z;
        threads = count * each;
        stack = stacks::fresh(threads);
        members = static_cast<member*>(calloc(count, sizeof(member)));
        places = static_cast<uint32_t*>(calloc(count, sizeof(uint32_t)));
        phases = static_cast<unsigned*>(calloc(count, sizeof(unsigned)));
        if (!stack || !members || !places || !phases) {
            current_outcome->failed.record("no memory for the threads of %u blocks that live at the same time", count);
            return;
        }
        // A process may have 65530 mappings. Without protected pages a system with huge pages would fill all of it.
        if (threads <= 8192) stacks::protect(stack, threads);
#ifdef MADV_NOHUGEPAGE
        else madvise(stack, threads * stack_bytes, MADV_NOHUGEPAGE);
#endif
        for (unsigned b = 0; b < count; ++b) {
            members[b].runner = new block_runner(body, arguments, shared, order, workers, this, stack + b * each * stack_bytes);
            if (!*members[b].runner) return;
            members[b].statics = static_cast<char*>(malloc(members[b].runner->statics().bytes + 1));
        }
        good = true;
#if CUDALAB_RACES
        globals.begin(members[0].runner->statics().variables, members[0].runner->statics().variables_bytes);
#endif
    }
    ~gang() {
        for (unsigned b = 0; members && b < count; ++b) {
            delete members[b].runner;
            free(members[b].statics);
        }
        free(members), free(places), free(phases);
        if (stack) stacks::released(stack, threads);
    }

    // Returns false and records the reason if the blocks cannot end. The gang must not be used after that.
    CUDALAB_UNWATCHED bool run(uint3 first, uint64_t number) {
        if (!good) return false;
        turns turn(order, number);
        const int contents = turn.undefined();
        for (unsigned b = 0; b < count; ++b) {
            member& one = members[b];
            one.begun = one.ended = false;
            one.index = is_loose ? block_at(number * count + b)
                                 : uint3{first.x + b % size.x, first.y + b / size.x % size.y, first.z + b / size.x / size.y};
            memset(one.runner->dynamic_memory(), contents, one.runner->dynamic_bytes());
            memset(one.statics, contents, one.runner->statics().bytes);
            blockIdx = one.index;
            one.runner->begin(turn);
            orders += phases[b], phases[b] = 0;
#if CUDALAB_RACES
            one.runner->races.owner = b;
#endif
        }
        orders += grid_phase + 1, grid_phase = 0;
        unsigned ended = 0;
        for (unsigned b = 0; b < count; ++b)
            if (members[b].index.z >= gridDim.z) end(members[b]), ++ended;  // beyond the last block
        for (unsigned pass = 0;; ++pass) {
            fill(pass, turn);
            for (unsigned i = 0; i < count; ++i) {
                member& one = members[places[i]];
                if (one.ended) continue;
                enter(places[i]);
                if (!one.begun && !untouched(one, contents)) return false;
                one.begun = true;
                turns own(order, number + places[i] + (uint64_t(pass) << 32));
                one.runner->advance(own);
                leave();
                if (one.runner->left() || current_outcome->failed.happened()) return false;
                if (one.runner->ended()) end(one), ++ended;
                release_cluster(places[i]);
            }
            if (ended == count) return intact();
            if (release_grid() || released || progress) workers.changed(mine);
            else if (!polling && !passed) return stuck();
            else if (!workers.waited(mine, unsigned(threads), sure && !passed)) return tell_who_looks();
            released = passed = polling = progress = false, sure = true;
        }
    }

    // ---- called by the CUDA threads ---------------------------------------------------------------------------------
    uint3 cluster_size() const { return cluster; }
    CUDALAB_UNWATCHED unsigned cluster_blocks() const { return cluster.x * cluster.y * cluster.z; }
    unsigned cluster_rank() const {
        return (blockIdx.z % cluster.z * cluster.y + blockIdx.y % cluster.y) * cluster.x + blockIdx.x % cluster.x;
    }
    bool whole_grid() const { return cooperative; }
    bool loose() const { return is_loose; }

    // ---- called by a block whose threads wait for memory that another one changes -----------------------------------
    void changed() { progress = true; }
    void waits(bool is_sure) { polling = true, sure = sure && is_sure; }

#if CUDALAB_RACES
    // ---- called by the race detector --------------------------------------------------------------------------------
    global_watch globals;
    CUDALAB_UNWATCHED uint32_t phase() const { return phases[neighbour(now, 0)] + grid_phase + orders; }
    void in_order() { ++orders; }
    CUDALAB_UNWATCHED uint3 index_of(unsigned place) const { return members[place].index; }
    // Returns whether this is memory of another block of the cluster.
    CUDALAB_UNWATCHED bool touch(const void* address, size_t bytes, bool writes, const access& made) {
        const char* const at = static_cast<const char*>(address);
        for (unsigned rank = 0; good && rank < cluster_blocks(); ++rank) {
            const member& other = members[neighbour(now, rank)];
            block_runner& block = *other.runner;
            const size_t fixed = at - other.statics;
            const bool dynamic = size_t(at - block.dynamic_memory()) < block.dynamic_bytes();
            if (!dynamic && fixed >= block.statics().bytes) continue;
            block.races.touch(address, dynamic ? at : block.statics().start + fixed, bytes, writes, made);
            return true;
        }
        return false;
    }
#endif

    void arrive(group which, const char* file, unsigned line) {
        fiber& me = running->me();
        if (me.arrived[which] > phase_of(which, now))
            fail("%s:%u: " CUDALAB_WHERE ": arrives at %s twice, without barrier_wait() in between", file, line, CUDALAB_HERE,
                 barrier_names[which]);
        ++me.arrived[which];
    }
    void wait(group which, const char* file, unsigned line) {
        fiber& me = running->me();
        if (!me.arrived[which])
            fail("%s:%u: " CUDALAB_WHERE ": barrier_wait() without barrier_arrive() before it", file, line, CUDALAB_HERE);
        me.group = which;
        if (me.arrived[which] > phase_of(which, now)) running->wait(state::at_group, file, line);
    }

    // The same place in the shared memory of another block of the cluster.
    void* mapped(const void* address, unsigned rank, const char* file, unsigned line) {
        const unsigned mine = cluster_rank();
        if (rank >= cluster_blocks())
            fail("%s:%u: " CUDALAB_WHERE ": the cluster has %u blocks, and no rank %u", file, line, CUDALAB_HERE,
                 cluster_blocks(), rank);
        if (rank == mine) return const_cast<void*>(address);
        const member& other = members[neighbour(now, rank)];
        if (other.ended)
            fail("%s:%u: " CUDALAB_WHERE ": block %u of the cluster has returned, and its shared memory is gone; "
                 "let every block call cluster.sync() before it returns", file, line, CUDALAB_HERE, rank);
        block_runner& here = *running;
        const size_t dynamic = static_cast<const char*>(address) - here.dynamic_memory();
        if (dynamic < here.dynamic_bytes()) return other.runner->dynamic_memory() + dynamic;
        const size_t fixed = static_cast<const char*>(address) - here.statics().start;
        if (fixed < here.statics().bytes) return other.statics + fixed;
        fail("%s:%u: " CUDALAB_WHERE ": map_shared_rank() of an address that is not in this block's shared memory", file, line,
             CUDALAB_HERE);
    }

    unsigned rank_of(const void* address) const {
        for (unsigned rank = 0; rank < cluster_blocks(); ++rank) {
            const member& other = members[neighbour(now, rank)];
            const char* const at = static_cast<const char*>(address);
            if (size_t(at - other.runner->dynamic_memory()) < other.runner->dynamic_bytes()) return rank;
            if (rank != cluster_rank() && size_t(at - other.statics) < other.runner->statics().bytes) return rank;
        }
        return cluster_rank();
    }

private:
    struct member {
        block_runner* runner;
        uint3 index;
        char* statics;  // while the block does not run
        bool begun, ended;
    };

    // The member with this rank in the cluster of another member.
    CUDALAB_UNWATCHED unsigned neighbour(unsigned of, unsigned rank) const {
        const unsigned x = of % size.x / cluster.x * cluster.x + rank % cluster.x;
        const unsigned y = of / size.x % size.y / cluster.y * cluster.y + rank / cluster.x % cluster.y;
        const unsigned z = of / size.x / size.y / cluster.z * cluster.z + rank / cluster.x / cluster.y;
        return (z * size.y + y) * size.x + x;
    }
    // Phases of a cluster are kept at its first member.
    unsigned& phase_of(group which, unsigned of) { return which == of_grid ? grid_phase : phases[neighbour(of, 0)]; }

    void fill(unsigned pass, turns& turn) {
        const bool up = order == forwards || (order == alternating && pass % 2 == 0) || turn.shuffled();
        for (unsigned i = 0; i < count; ++i) places[i] = up ? i : count - 1 - i;
        if (turn.shuffled())
            for (unsigned i = count; i > 1; --i) std::swap(places[i - 1], places[turn.next() % i]);
    }

    CUDALAB_UNWATCHED void enter(unsigned which) {
        now = which;
        member& one = members[which];
#if CUDALAB_RACES
        globals.enter(one.runner->view);
#endif
        one.runner->statics().put(one.statics);
        blockIdx = one.index;
        running = one.runner;
        dynamic_shared_base = one.runner->dynamic_memory();
        set_dynamic_arrays();
    }
    CUDALAB_UNWATCHED void leave() {
        member& one = members[now];
#if CUDALAB_RACES
        for (unsigned b = 0; b < count; ++b) members[b].runner->races.flush();
#endif
        if (one.runner->statics().bytes) memcpy(one.statics, one.runner->statics().start, one.runner->statics().bytes);
    }

    CUDALAB_UNWATCHED static bool all(const char* memory, size_t bytes, int value) {
        for (size_t i = 0; i < bytes; ++i)
            if (memory[i] != char(value)) return false;
        return true;
    }
    // Whether no other block has written to the shared memory of a block that has not begun.
    CUDALAB_UNWATCHED bool untouched(member& one, int contents) {
        if (all(one.runner->dynamic_memory(), one.runner->dynamic_bytes(), contents) &&
            all(one.statics, one.runner->statics().bytes, contents))
            return true;
        current_outcome->failed.record("block (%u,%u,%u): another block of the cluster writes to this block's shared memory "
                                "before this block has begun; call cluster.sync() before the first access to another block's memory",
                                one.index.x, one.index.y, one.index.z);
        return false;
    }

    static constexpr int after_end = 0xff;  // contents of the shared memory of a block that has returned: NaN
    CUDALAB_UNWATCHED void end(member& one) {
        one.ended = true;
        one.runner->check_shared_memory();
        memset(one.runner->dynamic_memory(), after_end, one.runner->dynamic_bytes());
        memset(one.statics, after_end, one.runner->statics().bytes);
    }
    CUDALAB_UNWATCHED bool intact() {
        for (unsigned b = 0; b < count; ++b) {
            const member& one = members[b];
            if (all(one.runner->dynamic_memory(), one.runner->dynamic_bytes(), after_end) &&
                all(one.statics, one.runner->statics().bytes, after_end))
                continue;
            current_outcome->failed.record("block (%u,%u,%u): another block of the cluster writes to this block's shared "
                                    "memory after this block has returned; let every block call cluster.sync() before it returns",
                                    one.index.x, one.index.y, one.index.z);
            return false;
        }
        return true;
    }

    // Hardware counts the threads of a cluster that have returned as arrived.
    void release_cluster(unsigned of) {
        unsigned& phase = phase_of(of_cluster, of);
        bool waiting = false;
        for (unsigned rank = 0; rank < cluster_blocks(); ++rank) {
            block_runner& block = *members[neighbour(of, rank)].runner;
            for (unsigned t = 0; t < block.threads(); ++t) {
                const fiber& one = block.thread(t);
                if (one.now == state::done) continue;
                if (one.arrived[of_cluster] <= phase) return;
                waiting = true;
            }
        }
        if (!waiting) return;
        ++phase;
        for (unsigned rank = 0; rank < cluster_blocks(); ++rank) resume(*members[neighbour(of, rank)].runner, of_cluster);
    }

    // The grid's barrier synchronises each block, then thread 0 of each block counts it. So it does not forgive a thread
    // 0 that has returned.
    bool release_grid() {
        bool waiting = false;
        for (unsigned b = 0; b < count; ++b) {
            block_runner& block = *members[b].runner;
            for (unsigned t = 0; t < block.threads(); ++t) {
                const fiber& one = block.thread(t);
                if (one.arrived[of_grid] > grid_phase) waiting |= one.now != state::done;
                else if (one.now != state::done || t == 0) return false;
            }
        }
        if (!waiting) return false;
        ++grid_phase;
        for (unsigned b = 0; b < count; ++b) resume(*members[b].runner, of_grid);
        return true;
    }

    void resume(block_runner& block, group which) {
        for (unsigned t = 0; t < block.threads(); ++t)
            if (block.thread(t).now == state::at_group && block.thread(t).group == which)
                block.thread(t).now = state::ready, (!cooperative && block.looks_again() ? passed : released) = true;
#if CUDALAB_RACES
        block.races.barrier();
        globals.enter(block.view), globals.group_barrier();
#endif
    }

    bool stuck();
    bool tell_who_looks() {
        for (unsigned b = 0; b < count; ++b) {
            if (members[b].ended) continue;
            blockIdx = members[b].index;
            if (members[b].runner->tells_who_looks(is_loose && workers.blocks_left(workers.job))) return false;
        }
        return stuck();
    }

    uint64_t order;
    crowd& workers;
    crowd::member mine;
    uint3 size, cluster;
    bool cooperative, is_loose, good = false, polling = false, progress = false, sure = true;
    bool released = false, passed = false;  // blocks passed a barrier; they did, and may only look again at the same memory
    unsigned count, now = 0, grid_phase = 0;
    uint32_t orders = 0;  // how often something else has put accesses in order: a fence, or that other blocks begin
    size_t threads;
    char* stack = nullptr;
    member* members = nullptr;
    uint32_t* places = nullptr;
    unsigned* phases = nullptr;
};

inline void block_runner::changed_in(gang& blocks) { blocks.changed(); }
inline void block_runner::wait_in(gang& blocks, bool sure) { blocks.waits(sure); }
#if CUDALAB_RACES
inline global_watch* block_runner::globals_of(gang& blocks) { return &blocks.globals; }
CUDALAB_UNWATCHED inline uint32_t block_runner::phase_of(const gang& blocks) { return blocks.phase(); }
inline void block_runner::order_in(gang& blocks) { blocks.in_order(); }
CUDALAB_UNWATCHED inline bool block_runner::touch_in(gang& blocks, const void* address, size_t bytes, bool writes, const access& now) {
    return blocks.touch(address, bytes, writes, now);
}
CUDALAB_UNWATCHED inline void race_watch::tell_of_cluster(uint3 a, const char* did, const access& old, uint3 b, const char* does,
                                                          const access& now, size_t bytes) const {
    const uint3 c = running->others->index_of(old.block), d = running->others->index_of(now.block);
    const uint3 home = running->others->index_of(owner);
    current_outcome->failed.record("race on %zu bytes of the shared memory of block (%u,%u,%u): thread (%u,%u,%u) of block "
                                   "(%u,%u,%u) %s at @%zx@, thread (%u,%u,%u) of block (%u,%u,%u) %s at @%zx@, without a "
                                   "barrier of the cluster between them%s", bytes, home.x, home.y, home.z, a.x, a.y, a.z, c.x,
                                   c.y, c.z, did, size_t(old.code), b.x, b.y, b.z, d.x, d.y, d.z, does, size_t(now.code),
                                   of_stores(did, does, !old.atomic && !now.atomic));
}
#endif

}  // namespace cudalab
