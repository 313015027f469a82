// From "grid, block, arguments" to running blocks, and the functions that Python finds in the shared object.
#pragma once

namespace cudalab {

// Which blocks live at the same time, in the next launch from this thread: those of a cluster, or all.
struct together {
    uint3 cluster = {1, 1, 1};
    bool cooperative = false;
    bool wanted() const { return cooperative || cluster.x * cluster.y * cluster.z > 1; }
};
static thread_local together wanted_groups;
static unsigned wanted_ends;  // not thread-local: shared memory begins with other contents

struct launch {
    uint3 grid, block;
    size_t shared;
    void** arguments;
    block_runner::block_body body;
    uint64_t order;
    failure failed, remarked;
    together groups;
    unsigned ends;  // run so many blocks at each end of the grid; 0: all
    unsigned long long next_block = 0;
    crowd workers{};

    // `workers` operating system threads take one block after another until none is left.
    CUDALAB_UNWATCHED static void* work(void* self) {
        launch& job = *static_cast<launch*>(self);
        failure *const outer = current_failure, *const outer_remark = current_remark;
        current_failure = &job.failed;
        current_remark = &job.remarked;
        gridDim = job.grid;
        blockDim = job.block;
        const unsigned long long plane = (unsigned long long)job.grid.x * job.grid.y, blocks = plane * job.grid.z;
        turns turn(job.order);
        unsigned __int128 first = job.order == backwards ? blocks - 1 : 0, step = job.order == backwards ? blocks - 1 : 1;
        if (turn.shuffled()) first = turn.next() % blocks, step = turn.step(blocks);
#if CUDALAB_FIBERS
        if (job.groups.wanted()) {
            job.run_gangs(first, step);
            job.workers.end();
            current_failure = outer;
            current_remark = outer_remark;
            return nullptr;
        }
#endif
        block_runner runner(job.body, job.arguments, job.shared, job.order, job.workers);
        while (!job.failed.happened()) {
            const unsigned long long turn_of = __atomic_fetch_add(&job.next_block, 1, __ATOMIC_RELAXED);
            if (turn_of >= blocks) break;
            unsigned long long i = (unsigned long long)((first + turn_of * step) % blocks);
            if (job.ends && turn_of >= 2 * job.ends) break;
            if (job.ends) i = turn_of % 2 ? turn_of / 2 : blocks - 1 - turn_of / 2;
            blockIdx = {unsigned(i % job.grid.x), unsigned(i / job.grid.x % job.grid.y), unsigned(i / plane)};
            if (!runner.run_block(i)) break;
        }
        runner.check_shared_memory();
        job.workers.end();
        current_failure = outer;
        current_remark = outer_remark;
        return nullptr;
    }
    CUDALAB_UNWATCHED static bool blocks_left(const void* self) {
        const launch& job = *static_cast<const launch*>(self);
        const uint3 size = job.groups.cooperative ? job.grid : job.groups.cluster;
        const unsigned long long next = __atomic_load_n(&job.next_block, __ATOMIC_RELAXED);
        if (job.ends && next >= 2 * job.ends) return false;
        return next < (unsigned long long)(job.grid.x / size.x) * (job.grid.y / size.y) * (job.grid.z / size.z);
    }

#if CUDALAB_FIBERS
    // The same for blocks that live at the same time: a worker takes one cluster after another, or the whole grid.
    CUDALAB_UNWATCHED void run_gangs(unsigned __int128 first, unsigned __int128 step) {
        const uint3 size = groups.cooperative ? grid : groups.cluster;
        const uint3 across = {grid.x / size.x, grid.y / size.y, grid.z / size.z};
        const unsigned long long gangs = (unsigned long long)across.x * across.y * across.z;
        gang blocks(body, arguments, shared, order, workers, size, groups.cluster, groups.cooperative);
        if (order > backwards) first = first % gangs, step = 1;
        else if (order == backwards) first = gangs - 1, step = gangs - 1;
        while (!failed.happened()) {
            const unsigned long long turn_of = __atomic_fetch_add(&next_block, 1, __ATOMIC_RELAXED);
            if (turn_of >= gangs) break;
            const unsigned long long i = (unsigned long long)((first + turn_of * step) % gangs);
            const uint3 place = {unsigned(i % across.x) * size.x, unsigned(i / across.x % across.y) * size.y,
                                 unsigned(i / across.x / across.y) * size.z};
            if (!blocks.run(place, i)) break;
        }
    }
#endif

    void run(unsigned wanted) {
        const unsigned long long blocks = (unsigned long long)grid.x * grid.y * grid.z;
        if (!blocks) return;
        if (groups.cooperative) wanted = 1;
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

static thread_local char last_error[sizeof failure::message], last_remark[sizeof failure::message];

// Size and kind of a parameter, against which Python checks arguments.
enum parameter_kind : unsigned { other, pointer, integer, floating };
template <class T> constexpr unsigned kind_of() {
    return std::is_pointer<T>::value          ? pointer
           : std::is_integral<T>::value       ? integer
           : std::is_floating_point<T>::value ? floating
                                              : other;
}

template <auto kernel> struct entry;
template <class... A, void (*kernel)(A...)> struct entry<kernel> {
    // workers > 0: arguments[i] points at the i-th argument, as for cuLaunchKernel.
    // workers < 0: `arguments` is one buffer with all of them, each at its natural alignment, as PyCUDA passes them to
    //              cuLaunchKernel (CU_LAUNCH_PARAM_BUFFER_POINTER).
    static int run(uint3 grid, uint3 block, size_t shared, void** arguments, int workers) {
        void* unpacked[sizeof...(A) + 1];
        if (workers < 0) {
            char* const buffer = reinterpret_cast<char*>(arguments);
            size_t offset = 0, i = 0;
            ((offset = (offset + alignof(A) - 1) / alignof(A) * alignof(A), unpacked[i++] = buffer + offset,
              offset += sizeof(A)), ...);
            arguments = unpacked;
            workers = -workers;
        }
        watch();
        launch job{grid, block, shared, arguments, body_of<kernel>, wanted_order, {}, {}, wanted_groups, wanted_ends, 0, {}};
        job.run(unsigned(workers));
        wanted_groups = together{};  // shared memory lies beside it, and begins with other contents
        memcpy(last_error, job.failed.message, sizeof last_error);
        memcpy(last_remark, job.remarked.message, sizeof last_remark);
        return job.failed.happened();
    }

    // {number of parameters, size and kind of the first, size and kind of the second, ...}
    static const unsigned* parameters() {
        static unsigned table[1 + 2 * sizeof...(A)] = {unsigned(sizeof...(A))};
        unsigned i = 0;
        ((table[++i] = unsigned(sizeof(A)), table[++i] = kind_of<A>()), ...);
        return table;
    }
};

}  // namespace cudalab

#define CUDALAB_EXTERN extern "C" __attribute__((visibility("default"), used))

// The order of blocks and threads in the next launches from the calling thread: see order.h.
CUDALAB_EXTERN void cudalab_set_order(uint64_t order) { cudalab::wanted_order = order; }

// The cluster of the next launch from the calling thread, and whether it is cooperative; for that launch alone.
CUDALAB_EXTERN void cudalab_set_groups(unsigned x, unsigned y, unsigned z, int cooperative) {
    cudalab::wanted_groups = {{x, y, z}, cooperative != 0};
}
#if CUDALAB_RACES
// What the next launches watch: nothing more, or one more array, whose accesses are of `granule` bytes or parts of them.
CUDALAB_EXTERN void cudalab_watch_none(int huge, unsigned ends, uint64_t accesses, size_t reach) {
    cudalab::wanted_count = 0, cudalab::wanted_huge = huge, cudalab::wanted_accesses = accesses;
    cudalab::wanted_ends = ends, cudalab::wanted_reach = reach, cudalab::atomics_seen = false;
}
CUDALAB_EXTERN void cudalab_watch(const void* start, size_t bytes, unsigned granule) {
    if (cudalab::wanted_count == 32) return;
    const unsigned number = cudalab::wanted_count++;
    cudalab::wanted_places[number] = {start, bytes, granule};
    cudalab::written_first[number] = bytes, cudalab::written_last[number] = 0;
}
CUDALAB_EXTERN int cudalab_atomics_seen() { return cudalab::atomics_seen; }
CUDALAB_EXTERN size_t cudalab_written(unsigned number, int last) {
    return last ? cudalab::written_last[number] : cudalab::written_first[number];
}
#endif

// Frees the memory that is kept for the next launch, since another module launches next.
CUDALAB_EXTERN void cudalab_forget() {
#if CUDALAB_FIBERS
    cudalab::stacks::forget();
#endif
}

// Why the last launch from the calling thread failed.
CUDALAB_EXTERN const char* cudalab_error() { return cudalab::last_error; }

// What CUDA leaves undefined and the last launch from the calling thread did; "" for nothing.
CUDALAB_EXTERN const char* cudalab_remark() { return cudalab::last_remark; }

// A `__constant__` variable that Python sets: its address, its bytes, and bytes and kind of an element.
#define CUDALAB_CONSTANT(number, ...)                                                                              \
    CUDALAB_EXTERN const size_t* cudalab_constant_##number() {                                                     \
        using element = std::remove_cv_t<std::remove_all_extents_t<std::remove_reference_t<decltype((__VA_ARGS__))>>>; \
        static const size_t table[4] = {size_t(&__VA_ARGS__), sizeof(__VA_ARGS__), sizeof(element),                \
                                        cudalab::kind_of<element>()};                                              \
        return table;                                                                                              \
    }

// What an entry's __cluster_dims__ holds.
#define CUDALAB_CLUSTER(name, ...)                                                  \
    CUDALAB_EXTERN const unsigned* cudalab_cluster_##name() {                       \
        static const unsigned size[4] = {__VA_ARGS__};                              \
        return size;                                                                \
    }

// An entry under the name by which Python asks for it: a plain name, or at_0, at_1, ... for those of C++. The rest is an
// expression with its address.
#define CUDALAB_EXPORT(name, ...)                                                                           \
    CUDALAB_EXTERN int cudalab_run_##name(unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,  \
                                          unsigned bz, size_t shared, void** arguments, int workers) {      \
        return cudalab::entry<__VA_ARGS__>::run({gx, gy, gz}, {bx, by, bz}, shared, arguments, workers);    \
    }                                                                                                       \
    CUDALAB_EXTERN const unsigned* cudalab_parameters_##name() {                                            \
        return cudalab::entry<__VA_ARGS__>::parameters();                                                   \
    }
