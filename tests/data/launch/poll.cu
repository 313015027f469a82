// Blocks that live at the same time and look at each other's flags.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void by_volatile(volatile int* flag, int* part, int* out) {
    __shared__ int own;
    if (threadIdx.x == 0) { own = part[blockIdx.x] = blockIdx.x + 1; __threadfence(); flag[blockIdx.x] = 1;
        while (flag[(blockIdx.x + 1) % gridDim.x] == 0) {} __threadfence(); }
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = own + part[(blockIdx.x + 1) % gridDim.x];
}
__global__ void by_atomic(int* flag, int* part, int* out) {
    __shared__ int own;
    if (threadIdx.x == 0) { own = part[blockIdx.x] = blockIdx.x + 1; __threadfence(); atomicExch(&flag[blockIdx.x], 1);
        while (atomicAdd(&flag[(blockIdx.x + 1) % gridDim.x], 0) == 0) {} __threadfence(); }
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = own + part[(blockIdx.x + 1) % gridDim.x];
}
__global__ void both(volatile int* flag, int* part, int* out) {
    __shared__ int own;
    if (threadIdx.x == 0) { own = part[blockIdx.x] = blockIdx.x + 1; __threadfence(); flag[blockIdx.x] = 1;
        while (flag[(blockIdx.x + 1) % gridDim.x] == 0) {} __threadfence(); }
    cg::this_grid().sync();
    out[blockIdx.x * blockDim.x + threadIdx.x] = own + part[(blockIdx.x + 1) % gridDim.x];
}
__global__ void in_cluster(volatile int* flag, int* part, int* out) {
    __shared__ int own[1];
    auto cluster = cg::this_cluster();
    if (threadIdx.x == 0) { own[0] = part[blockIdx.x] = blockIdx.x + 1; __threadfence(); flag[blockIdx.x] = 1;
        while (flag[blockIdx.x ^ 1] == 0) {} }
    cluster.sync();
    out[blockIdx.x * blockDim.x + threadIdx.x] = own[0] + *cluster.map_shared_rank(own, cluster.block_rank() ^ 1);
    cluster.sync();
}
__global__ void never(volatile int* flag, int* part, int* out) {
    if (threadIdx.x == 0) while (flag[0] == 0) {}
    cg::this_grid().sync();
}
__global__ void never_cluster(volatile int* flag, int* part, int* out) {
    if (blockIdx.x == 0) cg::this_cluster().sync();
    else while (flag[0] == 0) {}
}
