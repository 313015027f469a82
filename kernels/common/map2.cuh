// y[i] = f(a[i], b[i]) for n elements.
#pragma once
#include "pack.cuh"

// One element a thread.
template <float f(float, float)>
__device__ __forceinline__ void map2_element(const scalar_t* __restrict__ a, const scalar_t* __restrict__ b,
                                             scalar_t* __restrict__ y, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = scalar_t(f(float(a[i]), float(b[i])));
}

// 16 bytes of each array a thread.
template <float f(float, float)>
__device__ __forceinline__ void map2_pack(const scalar_t* __restrict__ a, const scalar_t* __restrict__ b,
                                          scalar_t* __restrict__ y, long long n) {
    const long long first = ((long long)blockIdx.x * blockDim.x + threadIdx.x) * Pack::width;
    const bool aligned = aligned16(a, b, y);
    if (aligned && first + Pack::width <= n) {
        const Pack from = *reinterpret_cast<const Pack*>(a + first);
        Pack pack = *reinterpret_cast<const Pack*>(b + first);
#pragma unroll
        for (int k = 0; k < Pack::width; ++k) pack.v[k] = scalar_t(f(float(from.v[k]), float(pack.v[k])));
        *reinterpret_cast<Pack*>(y + first) = pack;
    } else {
        for (long long i = first; i < n && i < first + Pack::width; ++i) y[i] = scalar_t(f(float(a[i]), float(b[i])));
    }
}
