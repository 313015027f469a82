// y[i] = f(x[i]) for n elements, with 16-byte accesses and N packs a thread.
#pragma once
#include "pack.cuh"

// N packs, `stride` packs apart. All loads are issued before the first value is used.
template <float f(float), int N>
__device__ __forceinline__ void map_packs(const Pack* __restrict__ x, Pack* __restrict__ y, long long stride) {
    Pack packs[N];
#pragma unroll
    for (int p = 0; p < N; ++p) packs[p] = x[p * stride];
#pragma unroll
    for (int p = 0; p < N; ++p) {
#pragma unroll
        for (int k = 0; k < Pack::width; ++k) packs[p].v[k] = scalar_t(f(float(packs[p].v[k])));
        y[p * stride] = packs[p];
    }
}

// What one block computes: blockDim.x neighbouring packs, a thread each, then the next blockDim.x packs, N times.
template <float f(float), int N>
__device__ __forceinline__ void map_block(const scalar_t* x, scalar_t* y, long long n) {
    const long long pack = (long long)blockIdx.x * N * blockDim.x + threadIdx.x, stride = blockDim.x;
    const Pack* from = reinterpret_cast<const Pack*>(x);
    Pack* to = reinterpret_cast<Pack*>(y);
    const bool aligned = aligned16(x, y);
    if (aligned && (pack + (N - 1) * stride) * Pack::width + Pack::width <= n) {
        map_packs<f, N>(from + pack, to + pack, stride);
        return;
    }
#pragma unroll 1  // the end of the array: small code, not fast code
    for (int p = 0; p < N; ++p) {
        const long long at = pack + p * stride, first = at * Pack::width;
        if (N > 1 && aligned && first + Pack::width <= n) {
            map_packs<f, 1>(from + at, to + at, stride);
        } else {
#pragma unroll 1
            for (long long i = first; i < n && i < first + Pack::width; ++i) y[i] = scalar_t(f(float(x[i])));
        }
    }
}
