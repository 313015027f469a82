// Packs as words of 32 bits, and two elements of 16 bits that share one.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// The bits of a pack, four registers: the compiler moves elements of 16 bits one by one.
struct __align__(16) Words {
    unsigned v[4];
};

template <class T> struct Two;
template <> struct Two<__half> {
    using type = __half2;
    __device__ __forceinline__ static type from(float a, float b) { return __floats2half2_rn(a, b); }
};
template <> struct Two<__nv_bfloat16> {
    using type = __nv_bfloat162;
    __device__ __forceinline__ static type from(float a, float b) { return __floats2bfloat162_rn(a, b); }
};
