// Sum of all elements of an array, y[0] = x[0] + ... + x[n - 1], in one launch.
//
// Each element is read once and almost nothing is written, so the limit is reading at full speed. The difficulty is the
// end, where thousands of threads combine into one number. Each block writes its sum to a table, and the block that
// finishes last, as an atomic counter tells, adds up the table. The order of additions does not depend on which block
// is last, so every run gives the same bits, unlike atomicAdd on the result; and y need not be cleared first. Table and
// counter belong to the module: two launches must not run at the same time.
// scalar_t is float or __nv_bfloat16 (-Dscalar_t=...); the sum is float32 in both, rounded once at the end.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include "common/pack.cuh"

// The sum of `value` over the block, in thread 0: by shuffles within a warp, through shared memory between warps.
__device__ __forceinline__ float over_block(float value) {
    __shared__ float partial[32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
#pragma unroll
    for (int s = 16; s > 0; s /= 2) value += __shfl_down_sync(0xffffffffu, value, s);
    __syncthreads();  // all threads have read an earlier sum
    if (lane == 0) partial[warp] = value;
    __syncthreads();
    if (warp > 0) return 0.0f;
    value = lane < warps ? partial[lane] : 0.0f;
#pragma unroll
    for (int s = 16; s > 0; s /= 2) value += __shfl_down_sync(0xffffffffu, value, s);
    return value;
}

// One block: nothing to combine between blocks, but only one multiprocessor works. A thread adds so many elements that
// it sums parts of 1,024 first, since rounding errors grow with the number of terms.
// On an H200 one three-hundredth of the speed at which a copy reads and writes.
extern "C" __global__ void sum_plain(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, long long n) {
    float sum = 0.0f;
    for (long long top = threadIdx.x; top < n; top += 1024LL * blockDim.x) {
        float part = 0.0f;
        for (long long i = top; i < n && i < top + 1024LL * blockDim.x; i += blockDim.x) part += float(x[i]);
        sum += part;
    }
    sum = over_block(sum);
    if (threadIdx.x == 0) *y = scalar_t(sum);
}

#define MOST_BLOCKS 2048
__device__ float block_sums[MOST_BLOCKS];
__device__ unsigned blocks_done;  // 0 between launches: atomicInc wraps to 0 at the last block

// Writes the block's sum to the table; the last block to arrive adds up the table and writes y.
__device__ __forceinline__ void finish(float sum, scalar_t* y) {
    __shared__ bool last;
    sum = over_block(sum);
    if (threadIdx.x == 0) {
        block_sums[blockIdx.x] = sum;
        __threadfence();  // the table's entry is visible before the count
        last = atomicInc(&blocks_done, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    __threadfence();  // the others' entries are read after the count
    sum = 0.0f;
    for (unsigned b = threadIdx.x; b < gridDim.x; b += blockDim.x) sum += __ldcg(block_sums + b);
    sum = over_block(sum);
    if (threadIdx.x == 0) *y = scalar_t(sum);
}

// As many blocks as fit on the card (eight on a multiprocessor, hence the launch bounds). Each thread strides through
// the array, one element at a time.
// On an H200 at 2^25 elements: 0.87 of a copy's speed in float32; a third in 16 bits, where a load brings half as much.
extern "C" __global__ void __launch_bounds__(256, 8)
    sum_blocks(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, long long n) {
    const long long step = (long long)gridDim.x * blockDim.x;
    float sum = 0.0f;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) sum += float(x[i]);
    finish(sum, y);
}

#define UNROLL 8  // loads of a thread in flight at a time

// 16 bytes an access, and one partial sum for each element of a pack, so that an addition does not wait for the
// previous one. The whole grid strides through the array, so all loads in flight are in one region of it. Two blocks of
// 512 threads on a multiprocessor leave a table that the last block reads at once.
// On an H200, in shares of a copy's speed: at 2^25 elements 0.94 in float32 and 0.85 in 16 bits, at 2^28 1.06 and 1.03.
// With one contiguous piece of the array for each block: 0.92 and 0.79, 1.03 and 0.99.
// Full turns check no bounds; the last turn reads zeros beyond the end. Elements before the first 16-byte boundary (a
// slice such as x[1:]) and after the last whole pack are added one by one.
extern "C" __global__ void __launch_bounds__(512, 2)
    sum_vec(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, long long n) {
    const long long missing = (size_t)-(long long)(size_t)x % sizeof(Pack) / sizeof(scalar_t);
    const long long head = missing < n ? missing : n, packs = (n - head) / Pack::width;
    const long long tail = head + packs * Pack::width;  // computed before the loop: after it, bfloat16 would spill
    const Pack* const body = reinterpret_cast<const Pack*>(x + head);
    const long long thread = (long long)blockIdx.x * blockDim.x + threadIdx.x, step = (long long)gridDim.x * blockDim.x;

    float lanes[Pack::width] = {};
    long long p = thread;
    for (; p + (UNROLL - 1) * step < packs; p += UNROLL * step) {
        Pack pack[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) pack[u] = body[p + u * step];
#pragma unroll
        for (int u = 0; u < UNROLL; ++u)
#pragma unroll
            for (int k = 0; k < Pack::width; ++k) lanes[k] += float(pack[u].v[k]);
    }
    Pack pack[UNROLL - 1] = {};
#pragma unroll
    for (int u = 0; u < UNROLL - 1; ++u)
        if (p + u * step < packs) pack[u] = body[p + u * step];

    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < Pack::width; ++k) {
#pragma unroll
        for (int u = 0; u < UNROLL - 1; ++u) lanes[k] += float(pack[u].v[k]);
        sum += lanes[k];
    }
    if (thread < head) sum += float(x[thread]);  // fewer than a pack, as at the end
    if (thread < n - tail) sum += float(x[tail + thread]);
    finish(sum, y);
}
