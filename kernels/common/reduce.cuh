// Reductions over the lanes of a warp. Every lane gets the result.
#pragma once

__device__ __forceinline__ float largest(float a, float b) { return fmaxf(a, b); }
__device__ __forceinline__ float total(float a, float b) { return a + b; }

// `value` of `lanes` neighbouring lanes (a power of two), combined.
template <auto combine, class T> __device__ __forceinline__ T over_lanes(T value, int lanes) {
    if (lanes >= 32) {  // without a comparison at each step
#pragma unroll
        for (int s = 16; s > 0; s /= 2) value = combine(value, __shfl_xor_sync(0xffffffffu, value, s));
        return value;
    }
#pragma unroll
    for (int s = 8; s > 0; s /= 2)
        if (s < lanes) value = combine(value, __shfl_xor_sync(0xffffffffu, value, s));
    return value;
}
