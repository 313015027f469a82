// Barriers of the grid and of clusters, and the shared memory of other blocks, for cooperative_groups.h and as CUDA's
// built-in functions. Without a cluster a block is one of its own.
#pragma once

namespace cudalab {

inline gang& grid_of(const char* file, unsigned line) {
    if (!running->others || !running->others->whole_grid())
        fail("%s:%u: " CUDALAB_WHERE ": a barrier of the grid needs a cooperative launch; write Launch(..., "
             "cooperative=True)", file, line, CUDALAB_HERE);
    return *running->others;
}
// The blocks that live at the same time since the launch asks for it; null: none.
inline gang* cluster_gang() { return running->others && !running->others->loose() ? running->others : nullptr; }
inline uint3 cluster_dim() { return cluster_gang() ? cluster_gang()->cluster_size() : uint3{1, 1, 1}; }
inline uint3 block_in_cluster() {
    const uint3 size = cluster_dim();
    return {blockIdx.x % size.x, blockIdx.y % size.y, blockIdx.z % size.z};
}
inline unsigned blocks_in_cluster() { return cluster_gang() ? cluster_gang()->cluster_blocks() : 1; }
inline unsigned rank_in_cluster() { return cluster_gang() ? cluster_gang()->cluster_rank() : 0; }

inline void cluster_arrive(const char* file, unsigned line) {
    if (cluster_gang()) cluster_gang()->arrive(of_cluster, file, line);
}
inline void cluster_wait(const char* file, unsigned line) {
    if (cluster_gang()) cluster_gang()->wait(of_cluster, file, line);
    else __syncthreads(file, line);
}
inline void* cluster_mapped(const void* address, unsigned rank, const char* file, unsigned line) {
    if (cluster_gang()) return cluster_gang()->mapped(address, rank, file, line);
    if (rank) fail("%s:%u: " CUDALAB_WHERE ": the launch has no cluster, and rank %u is asked for; write Launch(..., "
                   "cluster=(2,))", file, line, CUDALAB_HERE, rank);
    return const_cast<void*>(address);
}

}  // namespace cudalab

inline void __cluster_barrier_arrive(CUDALAB_PLACE) { cudalab::cluster_arrive(file, line); }
inline void __cluster_barrier_arrive_relaxed(CUDALAB_PLACE) { cudalab::cluster_arrive(file, line); }
inline void __cluster_barrier_wait(CUDALAB_PLACE) { cudalab::cluster_wait(file, line); }
inline dim3 __clusterDim() { return cudalab::cluster_dim(); }
inline dim3 __clusterRelativeBlockIdx() { return cudalab::block_in_cluster(); }
inline unsigned __clusterRelativeBlockRank() { return cudalab::rank_in_cluster(); }
inline unsigned __clusterSizeInBlocks() { return cudalab::blocks_in_cluster(); }
inline int __clusterDimIsSpecified() { return cudalab::cluster_gang() != nullptr; }
inline dim3 __clusterIdx() {
    const uint3 size = cudalab::cluster_dim();
    return {blockIdx.x / size.x, blockIdx.y / size.y, blockIdx.z / size.z};
}
inline dim3 __clusterGridDimInClusters() {
    const uint3 size = cudalab::cluster_dim();
    return {gridDim.x / size.x, gridDim.y / size.y, gridDim.z / size.z};
}
inline void* __cluster_map_shared_rank(const void* address, unsigned rank, CUDALAB_PLACE) {
    return cudalab::cluster_mapped(address, rank, file, line);
}
inline unsigned __cluster_query_shared_rank(const void* address) {
    return cudalab::cluster_gang() ? cudalab::cluster_gang()->rank_of(address) : 0;
}
