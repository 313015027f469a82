// Sum of all elements of an array, y[0] = x[0] + ... + x[n - 1], in one launch.
//
// Each element is read once and nothing is written, so memory can deliver at most one stream; what is in the way is the
// end, where thousands of threads have to agree on one number. Here each block leaves its sum in a table, and the block
// that comes last, as a counter tells it, adds the table up. Every addition has its place, whichever block comes last,
// so the bits are the same in every run, which is not so where blocks add to the result with atomicAdd; nor does the
// result have to be cleared before. Table and counter belong to the module: two launches must not run at the same time.
// scalar_t is float or __nv_bfloat16 (-Dscalar_t=...); the sum is float32 in both, rounded once at the end.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// The sum of `value` over the block, in thread 0: by shuffles in a warp, through shared memory between warps.
__device__ __forceinline__ float over_block(float value) {
    __shared__ float partial[32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
#pragma unroll
    for (int s = 16; s > 0; s /= 2) value += __shfl_down_sync(0xffffffffu, value, s);
    __syncthreads();  // an earlier sum has been read
    if (lane == 0) partial[warp] = value;
    __syncthreads();
    if (warp > 0) return 0.0f;
    value = lane < warps ? partial[lane] : 0.0f;
#pragma unroll
    for (int s = 16; s > 0; s /= 2) value += __shfl_down_sync(0xffffffffu, value, s);
    return value;
}

// One block for all: no agreement between blocks, and no more than one multiprocessor at work. A thread adds so many
// elements that it does it in two steps: the roundings of a sum grow with the number of its terms. On an H200 one
// three-hundredth of the speed at which a copy reads and writes.
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
__device__ unsigned blocks_done;  // 0 between launches: atomicInc goes back to 0 after the last block

// The block's sum into the table, and, in the last block to come, the table's into y.
__device__ __forceinline__ void finish(float sum, scalar_t* y) {
    __shared__ bool last;
    sum = over_block(sum);
    if (threadIdx.x == 0) {
        block_sums[blockIdx.x] = sum;
        __threadfence();  // the table's entry is there before the counter says so
        last = atomicInc(&blocks_done, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    __threadfence();  // and what others have entered is not read before the counter
    sum = 0.0f;
    for (unsigned b = threadIdx.x; b < gridDim.x; b += blockDim.x) sum += __ldcg(block_sums + b);
    sum = over_block(sum);
    if (threadIdx.x == 0) *y = scalar_t(sum);
}

// As many blocks as fit on the card (eight on a multiprocessor, hence the bounds); each thread steps through the array,
// element by element. At 2^25 elements 0.87 of a copy's speed in float32; a third in 16 bits, where a load brings half
// as much.
extern "C" __global__ void __launch_bounds__(256, 8)
    sum_blocks(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, long long n) {
    const long long step = (long long)gridDim.x * blockDim.x;
    float sum = 0.0f;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) sum += float(x[i]);
    finish(sum, y);
}

// 16 bytes an access, UNROLL of them under way at a time, and a sum for each element of a pack, so that an addition
// does not wait for the one before. As many blocks as fit on the card, each with a piece of the array of its own; at
// its end the loads go on side by side, those beyond it bringing zeros. Elements before the first 16-byte boundary (a
// slice such as x[1:]) and after the last whole pack are taken one by one. 0.9 of a copy's speed in float32 and 0.78 in
// 16 bits at 2^25, where the end takes 2 of 22 us; 1.05 and 1.02 at 2^28. Pieces for 4,096 blocks were slower: four
// times as many ends, one after the other.
struct __align__(16) Pack {
    static const int width = 16 / sizeof(scalar_t);
    scalar_t v[width];
};

extern "C" __global__ void __launch_bounds__(256, 32 / UNROLL)
    sum_vec(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, long long n) {
    const long long missing = (size_t)-(long long)(size_t)x % sizeof(Pack) / sizeof(scalar_t);
    const long long head = missing < n ? missing : n, packs = (n - head) / Pack::width;
    const long long piece = (packs + gridDim.x - 1) / gridDim.x, begin = blockIdx.x * piece;
    const long long left = packs - begin < piece ? packs - begin : piece;  // of the piece; below 0: none
    const Pack* const body = reinterpret_cast<const Pack*>(x + head) + begin;

    float lanes[Pack::width] = {};
    for (long long p = threadIdx.x; p < left; p += UNROLL * (long long)blockDim.x) {
        Pack pack[UNROLL] = {};
#pragma unroll
        for (int u = 0; u < UNROLL; ++u)
            if (const long long at = p + u * (long long)blockDim.x; at < left) pack[u] = body[at];
#pragma unroll
        for (int u = 0; u < UNROLL; ++u)
#pragma unroll
            for (int k = 0; k < Pack::width; ++k) lanes[k] += float(pack[u].v[k]);
    }

    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < Pack::width; ++k) sum += lanes[k];
    const long long thread = (long long)blockIdx.x * blockDim.x + threadIdx.x, tail = head + packs * Pack::width;
    if (thread < head) sum += float(x[thread]);  // fewer than a pack, as at the end
    if (thread < n - tail) sum += float(x[tail + thread]);
    finish(sum, y);
}
