// Cooperative groups: the block, the grid, clusters, tiles of up to 32 threads, and groups of some lanes of a warp.
#pragma once

namespace cooperative_groups {

inline unsigned cudalab_rank() {
    return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
}

class thread_block {
public:
    class arrival_token {};
    static void sync(CUDALAB_PLACE) { __syncthreads(file, line); }
    static arrival_token barrier_arrive() { return {}; }
    static void barrier_wait(arrival_token&& = arrival_token(), CUDALAB_PLACE) { __syncthreads(file, line); }
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
    class arrival_token {};
    static void sync(CUDALAB_PLACE) { barrier_arrive(file, line), barrier_wait({}, file, line); }
    static arrival_token barrier_arrive(CUDALAB_PLACE) {
        cudalab::grid_of(file, line).arrive(cudalab::of_grid, file, line);
        return {};
    }
    static void barrier_wait(arrival_token&& = arrival_token(), CUDALAB_PLACE) {
        cudalab::grid_of(file, line).wait(cudalab::of_grid, file, line);
    }
    static bool is_valid() { return cudalab::running->others && cudalab::running->others->whole_grid(); }
    static unsigned long long block_rank() {
        return ((unsigned long long)blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    }
    static unsigned long long num_blocks() { return (unsigned long long)gridDim.x * gridDim.y * gridDim.z; }
    static unsigned long long thread_rank() { return block_rank() * thread_block::size() + cudalab_rank(); }
    static unsigned long long num_threads() { return num_blocks() * thread_block::size(); }
    static unsigned long long size() { return num_threads(); }
    static dim3 block_index() { return {blockIdx.x, blockIdx.y, blockIdx.z}; }
    static dim3 dim_blocks() { return gridDim; }
    static dim3 group_dim() { return gridDim; }
    static unsigned long long num_clusters() { return num_blocks() / cudalab::blocks_in_cluster(); }
    static unsigned long long cluster_rank() {
        const dim3 at = __clusterIdx(), all = __clusterGridDimInClusters();
        return ((unsigned long long)at.z * all.y + at.y) * all.x + at.x;
    }
    static dim3 dim_clusters() { return __clusterGridDimInClusters(); }
    static dim3 cluster_index() { return __clusterIdx(); }
};
inline grid_group this_grid() { return {}; }

class cluster_group {
public:
    class arrival_token {};
    static void sync(CUDALAB_PLACE) { cudalab::cluster_arrive(file, line), cudalab::cluster_wait(file, line); }
    static arrival_token barrier_arrive(CUDALAB_PLACE) { return cudalab::cluster_arrive(file, line), arrival_token(); }
    static void barrier_wait(arrival_token&& = arrival_token(), CUDALAB_PLACE) { cudalab::cluster_wait(file, line); }
    static unsigned block_rank() { return cudalab::rank_in_cluster(); }
    static unsigned num_blocks() { return cudalab::blocks_in_cluster(); }
    static unsigned thread_rank() { return block_rank() * thread_block::size() + cudalab_rank(); }
    static unsigned num_threads() { return num_blocks() * thread_block::size(); }
    static unsigned size() { return num_threads(); }
    static dim3 dim_blocks() { return cudalab::cluster_dim(); }
    static dim3 dim_threads() {
        const dim3 blocks = dim_blocks();
        return {blocks.x * blockDim.x, blocks.y * blockDim.y, blocks.z * blockDim.z};
    }
    static dim3 block_index() { return cudalab::block_in_cluster(); }
    static dim3 thread_index() {
        const dim3 block = block_index();
        return {block.x * blockDim.x + threadIdx.x, block.y * blockDim.y + threadIdx.y,
                block.z * blockDim.z + threadIdx.z};
    }
    template <class T> static T* map_shared_rank(T* address, int rank, CUDALAB_PLACE) {
        return static_cast<T*>(cudalab::cluster_mapped(address, unsigned(rank), file, line));
    }
    template <class T> static unsigned query_shared_rank(const T* address) {
        return __cluster_query_shared_rank(address);
    }
};
inline cluster_group this_cluster() { return {}; }

// ---- some lanes of a warp, by their mask ------------------------------------------------------------------------------
template <class T> T cudalab_from(unsigned mask, T value, unsigned lane, const char* file, unsigned line) {
    if constexpr (sizeof(T) <= 8) return cudalab::shuffled(cudalab::source::lane, mask, value, lane, 32, file, line);
    else {
        static_assert(sizeof(T) <= 32, "a shuffle of a group moves at most 32 bytes");
        uint64_t parts[(sizeof(T) + 7) / 8] = {};
        memcpy(parts, &value, sizeof value);
        for (uint64_t& part : parts) part = cudalab::shuffled(cudalab::source::lane, mask, part, lane, 32, file, line);
        memcpy(&value, parts, sizeof value);
        return value;
    }
}

class cudalab_lanes {
public:
    explicit cudalab_lanes(unsigned mask, unsigned meta_rank = 0, unsigned meta_size = 1)
        : mask(mask), meta_rank(meta_rank), meta_size(meta_size) {}
    void sync(CUDALAB_PLACE) const { __syncwarp(mask, file, line); }
    unsigned thread_rank() const { return rank_of(cudalab::running->lane()); }
    unsigned num_threads() const { return unsigned(__builtin_popcount(mask)); }
    unsigned size() const { return num_threads(); }
    unsigned meta_group_rank() const { return meta_rank; }
    unsigned meta_group_size() const { return meta_size; }
    template <class T> T shfl(T value, int from, CUDALAB_PLACE) const {
        return cudalab_from(mask, value, lane_of(unsigned(from) % size()), file, line);
    }
    template <class T> T shfl_up(T value, unsigned by, CUDALAB_PLACE) const {
        const unsigned rank = thread_rank();
        return cudalab_from(mask, value, lane_of(rank < by ? rank : rank - by), file, line);
    }
    template <class T> T shfl_down(T value, unsigned by, CUDALAB_PLACE) const {
        const unsigned rank = thread_rank();
        return cudalab_from(mask, value, lane_of(rank + by >= size() ? rank : rank + by), file, line);
    }
    int any(int predicate, CUDALAB_PLACE) const { return __any_sync(mask, predicate, file, line); }
    int all(int predicate, CUDALAB_PLACE) const { return __all_sync(mask, predicate, file, line); }
    unsigned ballot(int predicate, CUDALAB_PLACE) const { return ranks(__ballot_sync(mask, predicate, file, line)); }
    template <class T> unsigned match_any(T value, CUDALAB_PLACE) const {
        return ranks(__match_any_sync(mask, value, file, line));
    }
    template <class T> unsigned match_all(T value, int& same, CUDALAB_PLACE) const {
        return ranks(__match_all_sync(mask, value, &same, file, line));
    }
    unsigned cudalab_mask() const { return mask; }

private:
    unsigned rank_of(unsigned lane) const { return unsigned(__builtin_popcount(mask & ((1u << lane) - 1))); }
    unsigned lane_of(unsigned rank) const {
        unsigned left = mask;
        while (rank--) left &= left - 1;
        return unsigned(__builtin_ctz(left));
    }
    unsigned ranks(unsigned lanes) const {
        unsigned found = 0;
        for (unsigned lane = 0; lane < 32; ++lane)
            if (lanes >> lane & 1) found |= 1u << rank_of(lane);
        return found;
    }
    unsigned mask, meta_rank, meta_size;
};

class coalesced_group : public cudalab_lanes {
public:
    using cudalab_lanes::cudalab_lanes;
};
// The lanes that are at this call now.
inline coalesced_group coalesced_threads(CUDALAB_PLACE) { return coalesced_group(__activemask(file, line)); }

CUDALAB_NOT_ON_CPU("a tile of more than 32 threads") void cudalab_wide_tile();

// `width` neighbouring threads: 1, 2, 4, ... 32.
template <unsigned width, class Parent = thread_block> class thread_block_tile {
    static_assert(width && (width & (width - 1)) == 0, "the number of threads of a tile must be a power of 2");
    static unsigned mask() {
        return (width >= 32 ? ~0u : (1u << width % 32) - 1) << (cudalab_rank() % 32 / width * width);
    }
    static unsigned own(unsigned lanes) { return lanes >> (cudalab_rank() % 32 / width * width); }
    static unsigned first() { return cudalab_rank() % 32 / width * width; }
    unsigned meta_rank, meta_size;

public:
    thread_block_tile(unsigned meta_rank, unsigned meta_size) : meta_rank(meta_rank), meta_size(meta_size) {}
    template <class Other> thread_block_tile(const thread_block_tile<width, Other>& other)
        : meta_rank(other.meta_group_rank()), meta_size(other.meta_group_size()) {}
    static void sync(CUDALAB_PLACE) { __syncwarp(mask(), file, line); }
    static unsigned thread_rank() { return cudalab_rank() % width; }
    static constexpr unsigned num_threads() { return width; }
    static constexpr unsigned size() { return width; }
    unsigned meta_group_rank() const { return meta_rank; }
    unsigned meta_group_size() const { return meta_size; }
    template <class T> T shfl(T value, int from, CUDALAB_PLACE) const {
        return cudalab_from(mask(), value, first() + (unsigned(from) & (width - 1)), file, line);
    }
    template <class T> T shfl_up(T value, unsigned by, CUDALAB_PLACE) const {
        const unsigned rank = thread_rank();
        return cudalab_from(mask(), value, first() + (rank < by ? rank : rank - by), file, line);
    }
    template <class T> T shfl_down(T value, unsigned by, CUDALAB_PLACE) const {
        const unsigned rank = thread_rank();
        return cudalab_from(mask(), value, first() + (rank + by >= width ? rank : rank + by), file, line);
    }
    template <class T> T shfl_xor(T value, unsigned with, CUDALAB_PLACE) const {
        const unsigned rank = thread_rank(), from = rank ^ with;
        return cudalab_from(mask(), value, first() + (from >= width ? rank : from), file, line);
    }
    int any(int predicate, CUDALAB_PLACE) const { return __any_sync(mask(), predicate, file, line); }
    int all(int predicate, CUDALAB_PLACE) const { return __all_sync(mask(), predicate, file, line); }
    unsigned ballot(int predicate, CUDALAB_PLACE) const { return own(__ballot_sync(mask(), predicate, file, line)); }
    template <class T> unsigned match_any(T value, CUDALAB_PLACE) const {
        return own(__match_any_sync(mask(), value, file, line));
    }
    template <class T> unsigned match_all(T value, int& same, CUDALAB_PLACE) const {
        return own(__match_all_sync(mask(), value, &same, file, line));
    }
    static unsigned cudalab_mask() { return mask(); }
};

// Any group, as a function that takes several kinds has it.
class thread_group {
    bool block;
    unsigned mask;

public:
    thread_group(const thread_block&) : block(true), mask(0) {}
    thread_group(const coalesced_group& lanes) : block(false), mask(lanes.cudalab_mask()) {}
    template <unsigned width, class Parent> thread_group(const thread_block_tile<width, Parent>& tile)
        : block(false), mask(tile.cudalab_mask()) {}
    explicit thread_group(unsigned mask) : block(false), mask(mask) {}
    void sync(CUDALAB_PLACE) const { block ? __syncthreads(file, line) : __syncwarp(mask, file, line); }
    unsigned num_threads() const { return block ? thread_block::size() : cudalab_lanes(mask).size(); }
    unsigned size() const { return num_threads(); }
    unsigned thread_rank() const { return block ? cudalab_rank() : cudalab_lanes(mask).thread_rank(); }
};

template <unsigned width, class Parent> thread_block_tile<width, Parent> tiled_partition(const Parent& parent) {
    if constexpr (width > 32) cudalab_wide_tile();
    return {parent.thread_rank() / width, (parent.size() + width - 1) / width};
}
inline thread_group tiled_partition(const thread_group& parent, unsigned width, CUDALAB_PLACE) {
    if (!width || width & (width - 1) || width > 32)
        cudalab::fail("%s:%u: tiled_partition: a tile of %u threads; a power of 2 up to 32 is allowed", file, line, width);
    (void)parent;
    return thread_group((width == 32 ? ~0u : (1u << width) - 1) << (cudalab_rank() % 32 / width * width));
}
inline thread_block_tile<1> this_thread() { return {0, 1}; }

// The lanes of a group with the same label, or with the same answer.
template <class Group, class Label> coalesced_group labeled_partition(const Group& group, Label label, CUDALAB_PLACE) {
    const unsigned all = group.cudalab_mask(), mine = __match_any_sync(all, label, file, line);
    const bool first = (mine & (0u - mine)) == 1u << cudalab::running->lane();
    const unsigned leaders = __ballot_sync(all, first, file, line);
    return coalesced_group(mine, unsigned(__builtin_popcount(leaders & ((mine & (0u - mine)) - 1))),
                           unsigned(__builtin_popcount(leaders)));
}
template <class Group> coalesced_group binary_partition(const Group& group, bool answer, CUDALAB_PLACE) {
    const unsigned all = group.cudalab_mask(), yes = __ballot_sync(all, answer, file, line);
    return coalesced_group(answer ? yes : all & ~yes, answer ? 0 : 1, 2);
}

template <class Group> void sync(const Group& group, CUDALAB_PLACE) { group.sync(file, line); }
template <class Group> auto thread_rank(const Group& group) { return group.thread_rank(); }
template <class Group> auto group_size(const Group& group) { return group.size(); }
template <class Group, class Function, class... A> void invoke_one(const Group& group, Function&& function, A&&... values) {
    if (group.thread_rank() == 0) function(values...);
}

}  // namespace cooperative_groups
