// Kernels that are stopped, of two blocks: the line above each gives the block, n, and what is said of the line with // <-.
// Those above #ifdef wait for nothing where BARRIER is empty, and for each other where it is __syncthreads().
#include <cassert>
// 8, n=5: assertion failed
__global__ void check(float* x, int n) { BARRIER;
    assert(x[threadIdx.x] < n); }  // <-
// 8, n=3: thread (3,0,0) called __trap
__global__ void trap(float* x, int n) { BARRIER; if (threadIdx.x == n) __trap(); }
// 1x3, n=1: block (1,0,0), thread (0,2,0): assertion failed
__global__ void at(float* x, int n) { BARRIER;
    assert(threadIdx.y != 2 || blockIdx.x != n); }  // <-
// 8, n=1: block ... misaligned address: ... 16 bytes
__global__ void vector(float* x, int n) { BARRIER;
    reinterpret_cast<float4*>(x + n)[threadIdx.x].x += 1; }  // <-
// 2x2, n=1: ... thread (1,1,0): misaligned address
__global__ void word(float* x, int n) { BARRIER;
    if (threadIdx.x & threadIdx.y) *(int*)((char*)x + n) = 1; }  // <-

#ifdef COOPERATIVE
#include <cuda_pipeline.h>
#include <cuda/barrier>
#include <utility>
// 1, n=12: block ... an asynchronous copy of 12 bytes; only 4, 8 or 16 are allowed
__global__ void size(float* x, int bytes) { __shared__ alignas(16) float s[8];
    __pipeline_memcpy_async(s, x, bytes); }  // <-
// 1, n=2: ... misaligned address: an asynchronous copy of 16 bytes ... its destination, ... 8 bytes off
__global__ void to(float* x, int at) { __shared__ alignas(16) float s[8];
    __pipeline_memcpy_async(s + at, x, 16); }  // <-
// 1, n=1: ... misaligned address: an asynchronous copy of 8 bytes ... its source, ... 4 bytes off
__global__ void from(float* x, int at) { __shared__ alignas(16) float s[8];
    __pipeline_memcpy_async(s, x + at, 8); }  // <-
// 1, n=1: ... its destination is not in shared memory
__global__ void no_shared(float* x, int at) { __syncthreads();
    __pipeline_memcpy_async(x + at, x, 4); }  // <-
// 1, n=20: ... aligned_size_t<16>(20), which is not a multiple of 16
__global__ void promise(float* x, int bytes) { __shared__ alignas(16) float s[8];
    __shared__ cuda::barrier<cuda::thread_scope_block> bar; init(&bar, 1);
    cuda::memcpy_async(s, x, cuda::aligned_size_t<16>(bytes), bar); }  // <-
// 1, n=2: ... 2 arrivals at a barrier that still expects 1 of the 1 in this phase
__global__ void too_many(float* x, int n) { __shared__ cuda::barrier<cuda::thread_scope_block> bar; init(&bar, 1);
    bar.wait(bar.arrive(n)); }  // <-
// 1, n=0: ... the destination of this asynchronous copy was written
__global__ void written(float* x, int n) { __shared__ float s;
    __pipeline_memcpy_async(&s, x, 4);  // <-
    __pipeline_commit(); s = 3; __pipeline_wait_prior(0); }
#endif
