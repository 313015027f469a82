#include <cuda/atomic>
__global__ void retried(int* y) { int seen = *y, old;
    while ((old = atomicCAS(y, seen, seen + 1)) != seen) seen = old; }
__global__ void by_object(int* y) { cuda::atomic_ref<int> all(*y); int seen = all.load();
    while (!all.compare_exchange_weak(seen, seen + 1)) {} }
__global__ void by_shared(int* y) { __shared__ int s; if (threadIdx.x == 0) s = 0; __syncthreads(); int seen = s, old;
    while ((old = atomicCAS(&s, seen, seen + 1)) != seen) seen = old;
    __syncthreads(); if (threadIdx.x == 0) atomicAdd(y, s); }
__global__ void locked(int* y) { for (bool done = false; !done;)
    if (atomicCAS(y + 1, 0, 1) == 0) {
        __threadfence(); *y = *y + 1; __threadfence(); atomicExch(y + 1, 0), done = true; } }
__global__ void last(int* y) { __shared__ int before; if (threadIdx.x == 0) before = atomicAdd(y, 1); __syncthreads();
    if (before == gridDim.x - 1) atomicAdd(y, threadIdx.x == 0 ? 832 - 13 : 0); }

__global__ void once(int* y) { const int old = *y; atomicCAS(y, old, old + 1); }
__global__ void once_by_object(int* y) { cuda::atomic_ref<int> all(*y); int seen = all.load();
    all.compare_exchange_strong(seen, seen + 1); }
__global__ void once_a_block(int* y) { if (threadIdx.x == 0) { const int old = *y; atomicCAS(y, old, old + 64); } }
__global__ void once_in_shared(int* y) { __shared__ int s; if (threadIdx.x == 0) s = 0; __syncthreads();
    const int old = s; atomicCAS(&s, old, old + 1);
    __syncthreads(); if (threadIdx.x == 0) atomicAdd(y, s); }
__global__ void exchanged(int* y) { const int old = atomicAdd(y, 0); atomicExch(y, old + 1); }
__global__ void tested_and_set(int* y) { for (bool done = false; !done;)
    if (atomicAdd(y + 1, 0) == 0) {
        atomicExch(y + 1, 1); __threadfence(); *y = *y + 1; __threadfence(); atomicExch(y + 1, 0), done = true; } }
__global__ void unlocked(int* y) { atomicAdd(y + 1, 0); __threadfence();
    *y = *y + 1; __threadfence(); atomicAdd(y + 1, 0); }
__global__ void unfenced(int* y) { for (bool done = false; !done;)
    if (atomicCAS(y + 1, 0, 1) == 0) {
        *y = *y + 1; atomicExch(y + 1, 0), done = true; } }

__global__ void counts_blocks(int* y) {
    atomicExch(&y[(blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x], 1 + threadIdx.x);
    if (threadIdx.x == 0) atomicAdd(&y[105], 1);
}
