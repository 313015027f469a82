// Cooperative groups within a block: thread_block, tiles of up to 32 threads, and the grid's sizes and ranks.
// Barriers of the whole grid, clusters and coalesced groups are refused by name (source.py).
#pragma once

namespace cooperative_groups {

inline unsigned cudalab_rank() {
    return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
}

class thread_block {
public:
    static void sync(CUDALAB_PLACE) { __syncthreads(file, line); }
    static unsigned thread_rank() { return cudalab_rank(); }
    static unsigned num_threads() { return blockDim.x * blockDim.y * blockDim.z; }
    static unsigned size() { return num_threads(); }
    static dim3 group_index() { return {blockIdx.x, blockIdx.y, blockIdx.z}; }
    static dim3 thread_index() { return {threadIdx.x, threadIdx.y, threadIdx.z}; }
    static dim3 dim_threads() { return blockDim; }
    static dim3 group_dim() { return blockDim; }
};
inline thread_block this_thread_block() { return {}; }

class grid_group {
public:
    CUDALAB_NOT_ON_CPU("grid-wide barriers") static void sync(CUDALAB_PLACE);
    CUDALAB_NOT_ON_CPU("grid-wide barriers") static unsigned barrier_arrive();
    CUDALAB_NOT_ON_CPU("grid-wide barriers") static void barrier_wait(unsigned = 0);
    static bool is_valid() { return false; }  // as where the launch is not a cooperative one
    static unsigned long long block_rank() {
        return ((unsigned long long)blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    }
    static unsigned long long num_blocks() { return (unsigned long long)gridDim.x * gridDim.y * gridDim.z; }
    static unsigned long long thread_rank() { return block_rank() * thread_block::size() + cudalab_rank(); }
    static unsigned long long num_threads() { return num_blocks() * thread_block::size(); }
    static unsigned long long size() { return num_threads(); }
    static dim3 group_dim() { return gridDim; }
};
inline grid_group this_grid() { return {}; }

// `width` neighbouring threads: 1, 2, 4, ... 32.
template <unsigned width, class Parent = thread_block> class thread_block_tile {
    static_assert(width && width <= 32 && (width & (width - 1)) == 0, "a tile has 1, 2, 4, 8, 16 or 32 threads here");
    static unsigned mask() {
        return (width == 32 ? ~0u : (1u << width % 32) - 1) << (cudalab_rank() % 32 / width * width);
    }
    static unsigned own(unsigned lanes) { return lanes >> (cudalab_rank() % 32 / width * width); }

public:
    static void sync(CUDALAB_PLACE) { __syncwarp(mask(), file, line); }
    static unsigned thread_rank() { return cudalab_rank() % width; }
    static constexpr unsigned num_threads() { return width; }
    static constexpr unsigned size() { return width; }
    static unsigned meta_group_rank() { return cudalab_rank() / width; }
    static unsigned meta_group_size() { return (thread_block::size() + width - 1) / width; }
    template <class T> T shfl(T value, int from, CUDALAB_PLACE) const {
        return __shfl_sync(mask(), value, from, width, file, line);
    }
    template <class T> T shfl_up(T value, unsigned by, CUDALAB_PLACE) const {
        return __shfl_up_sync(mask(), value, by, width, file, line);
    }
    template <class T> T shfl_down(T value, unsigned by, CUDALAB_PLACE) const {
        return __shfl_down_sync(mask(), value, by, width, file, line);
    }
    template <class T> T shfl_xor(T value, unsigned with, CUDALAB_PLACE) const {
        return __shfl_xor_sync(mask(), value, with, width, file, line);
    }
    int any(int predicate, CUDALAB_PLACE) const { return __any_sync(mask(), predicate, file, line); }
    int all(int predicate, CUDALAB_PLACE) const { return __all_sync(mask(), predicate, file, line); }
    unsigned ballot(int predicate, CUDALAB_PLACE) const { return own(__ballot_sync(mask(), predicate, file, line)); }
    template <class T> unsigned match_any(T value, CUDALAB_PLACE) const {
        return own(__match_any_sync(mask(), value, file, line));
    }
};

template <unsigned width, class Parent> thread_block_tile<width, Parent> tiled_partition(const Parent&) { return {}; }
template <class Group> void sync(const Group& group, CUDALAB_PLACE) { group.sync(file, line); }

}  // namespace cooperative_groups
