// Teams: the threads that share a row, and how their warps bring together what each has found.
//
// A warp puts its value into a table in shared memory, one barrier follows, and every warp reads all values. The table
// is written once, so one barrier is enough. There are three teams: a warp or a part of one, which needs no table; a
// block; and a cluster of blocks, each with a table of all values. A cluster keeps in the registers of several
// multiprocessors a row that is too long for one.
// The threads of a team lie in x. Their number is a power of two; a block of a cluster has a warp or more.
#pragma once
#include <cooperative_groups.h>
#include "pack.cuh"
#include "reduce.cuh"

struct Columns {
    int first, count;
};

struct Block {
    static constexpr int most = 32;  // warps, and so entries of a table
    __device__ __forceinline__ static bool several() { return blockDim.x > 32; }  // warps
    __device__ __forceinline__ static int lanes() { return min(blockDim.x, 32); }  // of a warp that share a row
    // Puts `mine`, which all lanes of a warp have, into the table and returns the number of its entries.
    template <class T> __device__ __forceinline__ static int share(const T& mine, T* table) {
        if (threadIdx.x % 32 == 0) table[threadIdx.x / 32] = mine;
        __syncthreads();
        return blockDim.x / 32;
    }
    __device__ __forceinline__ static bool leads() { return threadIdx.x == 0; }  // one thread of the team
    __device__ __forceinline__ static void open() {}
    __device__ __forceinline__ static Columns columns(int cols) { return {0, cols}; }
    // The row of this thread: blockDim.y rows share a block.
    __device__ __forceinline__ static long long row() { return (long long)blockIdx.x * blockDim.y + threadIdx.y; }
};

struct Warp : Block {
    static constexpr int most = 1;
    __device__ __forceinline__ static bool several() { return false; }
};

#if defined(__CUDACC_VER_MAJOR__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900  // not on the CPU
#if __CUDACC_VER_MAJOR__ > 12 || (__CUDACC_VER_MAJOR__ == 12 && __CUDACC_VER_MINOR__ >= 1)  // which know st.async
#define HAS_ARRIVALS
#endif
#endif

#ifdef HAS_ARRIVALS
// An mbarrier of this block, which counts the bytes that the blocks of a cluster store into its shared memory, once.
struct Arrivals {
    __device__ __forceinline__ static void begin() {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier()) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __device__ __forceinline__ static void expect(unsigned bytes) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier()), "r"(bytes) : "memory");
    }
    // Stores `value` where block number `to` has what is at `entry` here.
    template <class T> __device__ __forceinline__ static void send(const T& value, const T* entry, unsigned to) {
        const unsigned* const words = reinterpret_cast<const unsigned*>(&value);
        unsigned there, counter;
        asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(in_shared(entry)), "r"(to));
        asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(counter) : "r"(barrier()), "r"(to));
#pragma unroll
        for (unsigned i = 0; i < sizeof(T) / 4; ++i)
            asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];"
                         ::"r"(there + 4 * i), "r"(words[i]), "r"(counter) : "memory");
    }
    // The block's scope, as CUTLASS waits: what others stored is read from this block's shared memory alone.
    __device__ __forceinline__ static void wait() {
        for (unsigned done = 0; !done;)
            asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                         : "=r"(done) : "r"(barrier()) : "memory");
    }

private:
    __device__ __forceinline__ static unsigned in_shared(const void* p) { return unsigned(__cvta_generic_to_shared(p)); }
    __device__ __forceinline__ static unsigned barrier() {
        __shared__ unsigned long long one;
        return in_shared(&one);
    }
};
#endif

// Up to 8 blocks: blockIdx.x counts the blocks of a row, y and z the rows. `open` comes first and `share` once, in all
// threads. Architectures before sm_90 have no clusters: the code compiles there, but no launch reaches it.
struct Cluster : Block {
    static constexpr int most = 8 * 32;
    __device__ __forceinline__ static long long row() { return (long long)blockIdx.z * gridDim.y + blockIdx.y; }
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    __device__ __forceinline__ static bool several() { return true; }
    // Says that this block has begun: the others may write into its shared memory. Relaxed, since a release would wait.
    __device__ __forceinline__ static void open() {
#ifdef HAS_ARRIVALS
        if (threadIdx.x == 0) Arrivals::begin();
        __syncwarp();
#endif
        __cluster_barrier_arrive_relaxed();
    }
    // Each lane writes to the table of another block, so that every block reads its own shared memory. A GPU does so
    // by st.async and waits for the bytes of all blocks: a barrier of the cluster would wait for all loads and stores
    // on their way, 10 % of softmax's time at 65,536 columns. The CPU takes the barrier.
    template <class T> __device__ __forceinline__ static int share(const T& mine, T* table) {
        auto cluster = cooperative_groups::this_cluster();
        const int warps = blockDim.x / 32, blocks = cluster.num_blocks(), lane = threadIdx.x % 32;
        T* const entry = table + cluster.block_rank() * warps + threadIdx.x / 32;
        __cluster_barrier_wait();
#ifdef HAS_ARRIVALS
        if (threadIdx.x == 0) Arrivals::expect(blocks * warps * sizeof(T));
        if (lane < blocks) Arrivals::send(mine, entry, lane);
        __syncwarp();
        Arrivals::wait();
#else
        if (lane < blocks) *cluster.map_shared_rank(entry, lane) = mine;
        cluster.sync();
#endif
        return blocks * warps;
    }
    __device__ __forceinline__ static bool leads() { return threadIdx.x == 0 && rank() == 0; }
    // The columns of this block, of a row of `cols`: whole packs, and an equal share but for the last blocks.
    __device__ __forceinline__ static Columns columns(int cols) {
        const unsigned blocks = cooperative_groups::this_cluster().num_blocks(), all = cols;
        const unsigned share = (all + blocks * WIDE - 1) / (blocks * WIDE) * WIDE, first = min(rank() * share, all);
        return {int(first), int(min(share, all - first))};
    }

private:
    __device__ __forceinline__ static unsigned rank() { return cooperative_groups::this_cluster().block_rank(); }
#endif
};

// Whether a thread leaves at once: blocks beyond the last row do. In a block with several rows the threads of rows that
// do not exist stay, since shuffles need all lanes of a warp.
template <class Team> __device__ __forceinline__ bool leaves(long long rows) {
    return Team::most > 32 && Team::row() >= rows;
}

// value(0), value(1), ... value(n - 1), combined: the entries of a table. n is a power of two.
template <class Team, auto combine, class Value> __device__ __forceinline__ auto over_table(int n, Value value) {
    const int lane = threadIdx.x % 32;
    auto all = value(lane & (n - 1));
    if (Team::most > 32) {
#pragma unroll 1  // registers are few
        for (int i = lane + 32; i < n; i += 32) all = combine(all, value(i));
    }
    return over_lanes<combine>(all, n);
}

// `value` of all threads of a block of whole warps, combined; every thread gets the result. `none` is what changes
// nothing, such as 0 in a sum: with it the number of shuffles does not depend on the number of warps.
template <auto combine, class T> __device__ __forceinline__ T over_block(T value, T none, T* table) {
    value = over_lanes<combine>(value, 32);
    if (!Block::several()) return value;
    const int n = Block::share(value, table), lane = threadIdx.x % 32;
    return over_lanes<combine>(lane < n ? table[lane] : none, 32);
}

// `value` of all threads of a team, which may be part of a warp, combined; every thread gets the result.
template <class Team, auto combine, class T> __device__ __forceinline__ T over_team(T value, T* table) {
    value = over_lanes<combine>(value, blockDim.x);
    if (!Team::several()) return value;
    const int n = Team::share(value, table);
    return over_table<Team, combine>(n, [table](int i) { return table[i]; });
}
