// Clusters: blocks that read, write and count in each other's shared memory.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

// A histogram whose bins are spread over the cluster: each block holds some of them.
__global__ void histogram(int* counts, const int* x, int n, int bins_of_block) {
    extern __shared__ int bins[];
    cg::cluster_group cluster = cg::this_cluster();
    for (int i = threadIdx.x; i < bins_of_block; i += blockDim.x) bins[i] = 0;
    cluster.sync();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        const int bin = x[i];
        int* there = cluster.map_shared_rank(bins, bin / bins_of_block);
        atomicAdd(there + bin % bins_of_block, 1);
    }
    cluster.sync();
    int* mine = counts + cluster.block_rank() * bins_of_block;
    for (int i = threadIdx.x; i < bins_of_block; i += blockDim.x) atomicAdd(&mine[i], bins[i]);
}

// y = x, reversed over each cluster, through static shared memory.
__global__ void __cluster_dims__(2, 1, 1) reverse(float* y, const float* x) {
    __shared__ float tile[64];
    cg::cluster_group cluster = cg::this_cluster();
    tile[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
    cluster.barrier_arrive();
    const unsigned other = cluster.num_blocks() - 1 - cluster.block_rank();
    const float* theirs = cluster.map_shared_rank(tile, other);
    cluster.barrier_wait();
    y[blockIdx.x * 64 + threadIdx.x] = theirs[63 - threadIdx.x];
    cluster.sync();
}

// The same with dynamic shared memory, whose blocks push to each other.
__global__ void reverse_dynamic(float* y, const float* x) {
    extern __shared__ float tile[];
    auto cluster = cg::this_cluster();
    cluster.sync();
    float* theirs = cluster.map_shared_rank(tile, cluster.block_rank() ^ 1);
    theirs[blockDim.x - 1 - threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
    cluster.sync();
    y[blockIdx.x * blockDim.x + threadIdx.x] = tile[threadIdx.x];
}
