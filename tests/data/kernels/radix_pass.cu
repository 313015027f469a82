// One LSD radix-sort pass: histogram, scan of the bins, stable scatter by warp-level multi-split.
#include <stdint.h>

constexpr int RADIX_BITS = 4;
constexpr int RADIX = 1 << RADIX_BITS;
constexpr int THREADS = 128;
constexpr int WARPS = THREADS / 32;

__device__ __forceinline__ uint32_t lanemask_lt() { return (1u << (threadIdx.x & 31)) - 1; }

__global__ void radix_histogram(const uint32_t* __restrict__ keys, uint32_t* __restrict__ hist, int n, int shift) {
    __shared__ uint32_t bins[RADIX];
    if (threadIdx.x < RADIX) bins[threadIdx.x] = 0;
    __syncthreads();
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < n) atomicAdd(&bins[(keys[i] >> shift) & (RADIX - 1)], 1);
    __syncthreads();
    // column-major: all blocks of bin 0, then all of bin 1, ...
    if (threadIdx.x < RADIX) hist[threadIdx.x * gridDim.x + blockIdx.x] = bins[threadIdx.x];
}

__global__ void radix_scan(uint32_t* hist, int count) {
    __shared__ uint32_t carry;
    __shared__ uint32_t tmp[1024];
    if (threadIdx.x == 0) carry = 0;
    __syncthreads();
    for (int base = 0; base < count; base += 1024) {
        const int i = base + threadIdx.x;
        const uint32_t v = i < count ? hist[i] : 0;
        tmp[threadIdx.x] = v;
        __syncthreads();
        for (int d = 1; d < 1024; d <<= 1) {
            uint32_t t = threadIdx.x >= d ? tmp[threadIdx.x - d] : 0;
            __syncthreads();
            tmp[threadIdx.x] += t;
            __syncthreads();
        }
        if (i < count) hist[i] = carry + tmp[threadIdx.x] - v;
        __syncthreads();
        if (threadIdx.x == 1023) carry += tmp[1023];
        __syncthreads();
    }
}

__global__ void radix_scatter(const uint32_t* __restrict__ keys, uint32_t* __restrict__ out, const uint32_t* __restrict__ hist,
                              int n, int shift) {
    __shared__ uint32_t warp_bins[WARPS][RADIX];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    for (int b = lane; b < RADIX; b += 32) warp_bins[warp][b] = 0;
    __syncwarp();
    const int i = blockIdx.x * THREADS + threadIdx.x;
    const bool valid = i < n;
    const uint32_t active = __ballot_sync(0xffffffff, valid);
    uint32_t key = 0, digit = 0, rank = 0;
    if (valid) {
        key = keys[i];
        digit = (key >> shift) & (RADIX - 1);
        const uint32_t peers = __match_any_sync(active, digit);
        rank = __popc(peers & lanemask_lt());
        if (rank == 0) warp_bins[warp][digit] = __popc(peers);
    }
    __syncthreads();
    if (valid) {
        uint32_t offset = hist[digit * gridDim.x + blockIdx.x] + rank;
        for (int w = 0; w < warp; ++w) offset += warp_bins[w][digit];
        out[offset] = key;
    }
}
