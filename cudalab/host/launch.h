// From "grid, block, arguments" to running blocks, and the functions of the runtime that Python finds in the shared object.
#pragma once

namespace cudalab {

// Which blocks live at the same time, in the next launch from this thread: those of a cluster, or all.
struct together {
    uint3 cluster = {1, 1, 1};
    bool cooperative = false;
    bool wanted() const { return cooperative || cluster.x * cluster.y * cluster.z > 1; }
};
static thread_local together wanted_groups{{0, 0, 0}, false};  // zeros: see shared_memory.h
static unsigned wanted_ends;  // not thread-local: shared memory begins with other contents
static double wanted_limit = 1e9;  // seconds after which the next launch starts no more blocks

struct launch {
    uint3 grid, block;
    size_t shared;
    void** arguments;
    kernel_body body;
    uint64_t order;
    outcome said;
    together groups;
    unsigned ends;  // run so many blocks at each end of the grid; 0: all
    unsigned long long next_block = 0;
    crowd workers{};

    timespec start;
    unsigned loose = 1;  // blocks that take turns, so that one changes memory between two accesses of another

    // Whether no more blocks are to start: the launch has failed, or takes too long.
    CUDALAB_UNWATCHED bool ends_early() {
        if (crowd::elapsed(start) > wanted_limit) said.failed.record("%sthe launch takes too long", gave_up);
        return said.failed.happened();
    }

    // `workers` operating system threads take one block after another until none is left.
    CUDALAB_UNWATCHED static void* work(void* self) {
        launch& job = *static_cast<launch*>(self);
        outcome* const outer = current_outcome;
        current_outcome = &job.said;
        gridDim = job.grid;
        blockDim = job.block;
        const unsigned long long blocks = job.blocks();
        turns turn(job.order);
        unsigned __int128 first = job.order == backwards ? blocks - 1 : 0, step = job.order == backwards ? blocks - 1 : 1;
        if (turn.shuffled()) first = turn.next() % blocks, step = turn.step(blocks);
#if CUDALAB_FIBERS
        if (job.groups.wanted() || job.loose > 1) {
            job.run_gangs(first, step);
            job.workers.end();
            current_outcome = outer;
            return nullptr;
        }
#endif
        block_runner runner(job.body, job.arguments, job.shared, job.order, job.workers);
        while (!job.ends_early()) {
            const unsigned long long turn_of = __atomic_fetch_add(&job.next_block, 1, __ATOMIC_RELAXED);
            if (turn_of >= blocks) break;
            unsigned long long i = (unsigned long long)((first + turn_of * step) % blocks);
            if (job.ends && turn_of >= 2 * job.ends) break;
            if (job.ends) i = turn_of % 2 ? turn_of / 2 : blocks - 1 - turn_of / 2;
            blockIdx = block_at(i);
            if (!runner.run_block(i)) break;
        }
        runner.check_shared_memory();
        job.workers.end();
        current_outcome = outer;
        return nullptr;
    }
    CUDALAB_UNWATCHED static bool blocks_left(const void* self) {
        const launch& job = *static_cast<const launch*>(self);
        const unsigned long long next = __atomic_load_n(&job.next_block, __ATOMIC_RELAXED);
        return job.ends && next >= 2 * job.ends ? false : next < job.gangs();
    }
    unsigned long long blocks() const { return (unsigned long long)grid.x * grid.y * grid.z; }
    // Groups of blocks that live at the same time.
    unsigned long long gangs() const {
        if (loose > 1) return (blocks() + loose - 1) / loose;
        const uint3 size = groups.cooperative ? grid : groups.cluster;
        return (unsigned long long)(grid.x / size.x) * (grid.y / size.y) * (grid.z / size.z);
    }

#if CUDALAB_FIBERS
    // The same for blocks that live at the same time: a worker takes one cluster after another, or the whole grid.
    CUDALAB_UNWATCHED void run_gangs(unsigned __int128 first, unsigned __int128 step) {
        const uint3 size = loose > 1 ? uint3{loose, 1, 1} : groups.cooperative ? grid : groups.cluster;
        const uint3 across = {grid.x / size.x, grid.y / size.y, grid.z / size.z};
        const unsigned long long gangs = this->gangs();
        gang blocks(body, arguments, shared, order, workers, size, groups.cluster, groups.cooperative, loose > 1);
        if (order > backwards) first = first % gangs, step = 1;
        else if (order == backwards) first = gangs - 1, step = gangs - 1;
        while (!ends_early()) {
            const unsigned long long turn_of = __atomic_fetch_add(&next_block, 1, __ATOMIC_RELAXED);
            if (turn_of >= gangs) break;
            const unsigned long long i = (unsigned long long)((first + turn_of * step) % gangs);
            const uint3 place = loose > 1 ? uint3{} : uint3{unsigned(i % across.x) * size.x, unsigned(i / across.x % across.y) * size.y,
                                 unsigned(i / across.x / across.y) * size.z};
            if (!blocks.run(place, i)) break;
        }
    }
#endif

    // `contends`: the kernel has atomic operations, whose threads can wait.
    void run(unsigned wanted, bool contends) {
        const unsigned long long blocks = this->blocks();
        if (!blocks) return;
        if (groups.cooperative) wanted = 1;
        if (contends && order > backwards && !groups.wanted()) {
            loose = unsigned(std::min<unsigned long long>(blocks, std::max(2u, std::min(8u, 2048 / (block.x * block.y * block.z)))));
            wanted = wanted < 4 ? wanted : 4;
        }
        clock_gettime(CLOCK_MONOTONIC, &start);
        constexpr unsigned most = 16;  // a block of 1024 fibers has 2048 mappings, a process may have 65530
        workers.job = this, workers.work = work, workers.blocks_left = blocks_left;
        workers.wanted = wanted < most ? wanted : most;
        workers.begin();
        for (unsigned i = 1; i < workers.wanted && i < blocks; ++i)
            if (!workers.start(work, this)) break;  // fewer will do
        work(this);
        workers.join();
    }
};

static thread_local outcome last_outcome;
CUDALAB_ROOM(last)
#if CUDALAB_FIBERS
CUDALAB_UNWATCHED const char* room_behind_arrays() { return room_first < room_last ? room_first : room_last; }
#endif

int run_launch(uint3 grid, uint3 block, size_t shared, void** arguments, kernel_body body, unsigned workers, bool contends) {
    watch();
    if (!wanted_groups.cluster.x) wanted_groups = together{};
    launch job{grid, block, shared, arguments, body, wanted_order, {}, wanted_groups, wanted_ends, 0, {}, {}};
    job.run(workers, contends);
    wanted_groups = together{};  // shared memory lies beside it, and begins with other contents
    last_outcome = job.said;
    return job.said.failed.happened();
}

}  // namespace cudalab

// The order of blocks and threads in the next launches from the calling thread: see order.h. `probe`: a line that reads
// other undefined values than usual; 0: none. `limit`: seconds after which a launch gives up.
CUDALAB_EXTERN void cudalab_set_order(uint64_t order, unsigned probe, double limit) {
    cudalab::wanted_order = order, cudalab::wanted_probe = probe, cudalab::wanted_limit = limit;
}

// The cluster of the next launch from the calling thread, and whether it is cooperative; for that launch alone.
CUDALAB_EXTERN void cudalab_set_groups(unsigned x, unsigned y, unsigned z, int cooperative) {
    cudalab::wanted_groups = {{x, y, z}, cooperative != 0};
}
#if CUDALAB_RACES
// What the next launches watch: nothing more, or one more array, whose accesses are of `granule` bytes or parts of them.
CUDALAB_EXTERN void cudalab_watch_none(int huge, unsigned ends, uint64_t accesses, size_t reach) {
    cudalab::wanted_count = 0, cudalab::wanted_huge = huge, cudalab::wanted_accesses = accesses;
    cudalab::wanted_ends = ends, cudalab::wanted_reach = reach, cudalab::atomics_seen = false;
    cudalab::reader_count = 0;
}
CUDALAB_EXTERN void cudalab_watch(const void* start, size_t bytes, unsigned granule) {
    if (cudalab::wanted_count == 32) return;
    const unsigned number = cudalab::wanted_count++;
    cudalab::wanted_places[number] = {start, bytes, granule};
    cudalab::written_up_to[number] = 0;
}
// The bytes between static shared arrays, which nobody may use.
CUDALAB_EXTERN void cudalab_shared_gap(unsigned number, size_t first, size_t end) {
    if (number < sizeof cudalab::shared_gaps / sizeof *cudalab::shared_gaps)
        cudalab::shared_gaps[number][0] = first, cudalab::shared_gaps[number][1] = end;
}
// An instruction that the last blocks ran and that read another place for another block: its address, which array it read,
// and up to which byte; null after the last one.
CUDALAB_EXTERN const uint64_t* cudalab_reader(unsigned number) {
    static uint64_t found[3];
    for (unsigned i = 0; i < cudalab::reader_count; ++i) {
        const cudalab::reader& one = cudalab::readers[i];
        if (!one.late || !one.moves() || number--) continue;
        found[0] = one.code, found[1] = one.array, found[2] = one.end;
        return found;
    }
    return nullptr;
}
// Where to leave what each access is, from now on, as a last_access.
CUDALAB_EXTERN void cudalab_leave_last(void* place) { cudalab::last = static_cast<cudalab::last_access*>(place); }
CUDALAB_EXTERN int cudalab_atomics_seen() { return cudalab::atomics_seen; }
CUDALAB_EXTERN size_t cudalab_written(unsigned number) { return cudalab::written_up_to[number]; }
#endif

// Frees the memory that is kept for the next launch, since another module launches next.
CUDALAB_EXTERN void cudalab_forget() {
#if CUDALAB_FIBERS
    cudalab::stacks::forget();
#endif
}

// Why the last launch from the calling thread failed.
CUDALAB_EXTERN const char* cudalab_error() { return cudalab::last_outcome.failed.message; }

// What CUDA leaves undefined and the last launch from the calling thread did; "" for nothing.
CUDALAB_EXTERN const char* cudalab_remark() { return cudalab::last_outcome.remarked.message; }

// A read of an undefined value in the last launch from the calling thread, and its line; null after the last of them.
CUDALAB_EXTERN const char* cudalab_undefined_read(unsigned number, unsigned* line) {
    const cudalab::outcome& last = cudalab::last_outcome;
    if (number >= cudalab::outcome::most || !last.lines[number]) return nullptr;
    *line = last.lines[number];
    return last.undefined_reads[number].message;
}
