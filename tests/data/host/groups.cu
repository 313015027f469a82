// What blocks that live at the same time may do, beside what tests/data/launch shows.
#include <cooperative_groups.h>

__device__ void barrier(unsigned* state, unsigned goal) {
    __syncthreads();
    if (threadIdx.x == 0) { __threadfence(); atomicAdd(state, 1); while (atomicAdd(state, 0) < goal) {} }
    __syncthreads();
}
__global__ void by_atomics(unsigned* state, int* part, int* out) {
    __shared__ int own;
    if (threadIdx.x == 0) own = part[blockIdx.x] = blockIdx.x;
    barrier(state, gridDim.x);
    int sum = own;
    for (int i = 0; i < gridDim.x; ++i) sum += part[i];
    out[blockIdx.x] = sum;
}

struct Part { float top = 7.0f; };  // CUDA gives no shared array an initial value
__global__ void other_parts(float* y) {
    __shared__ Part part[32];
    auto cluster = cooperative_groups::this_cluster();
    part[threadIdx.x].top = blockIdx.x * 100.0f + threadIdx.x;
    cluster.sync();
    y[blockIdx.x * 32 + threadIdx.x] = cluster.map_shared_rank(part, 1 - cluster.block_rank())[threadIdx.x].top;
    cluster.sync();
}
__global__ void first_parts(float* y) {
    __shared__ Part part[32];
    y[threadIdx.x] = part[threadIdx.x].top;
    __syncthreads();
}

#if __CUDA_ARCH__ >= 900
#define RANK cluster_rank
#else
#define RANK none
#endif
__device__ int none() { return -1; }
__device__ int cluster_rank() { return cooperative_groups::this_cluster().block_rank(); }
extern "C" __global__ void ranks(int* y) { y[blockIdx.x] = RANK(); }
