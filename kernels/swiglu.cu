// SwiGLU, elementwise: y = silu(gate) * up, silu(g) = g / (1 + exp(-g)), in one pass over both arrays.
//
// Two kernels would write silu(gate) and read it again. Two reads and one write an element leave time for arithmetic
// that keeps its digits: exp(-|g|) does not overflow, and for g < 0 it becomes a factor of the result in several steps.
// So the result is right where silu(g) is too small for float32 and a large `up` brings it back.
// scalar_t is float, __half or __nv_bfloat16 (-Dscalar_t=...); the arithmetic is float32 in all three.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include "common/map2.cuh"

// float64 has exp(709.8) = inf: there silu is -0, and 0 * inf is NaN in the reference. With this factor it is so here.
__device__ __forceinline__ float unless_far(float factor, float gate) { return gate < -709.78271f ? 0.0f : factor; }

// 16 bits: with the fourth root of exp(-|g|) nothing underflows too early. Its exponent is 90 times a number in [0, 1],
// so the compiler omits the instructions that handle subnormals; beyond |g| = 249.5 even the largest `up` gives 0. The
// last argument only chooses the form.
template <class T> __device__ __forceinline__ float swiglu(float gate, float up, const T*) {
    const float root = exp2f(-90.0f * __saturatef(fabsf(gate) * (1.44269504f / 360))), square = root * root;
    const float silu = gate * __fdividef(1.0f, fmaf(square, square, 1.0f)), w = unless_far(root, gate);
    return gate > 0.0f ? silu * up : (((up * w) * (silu * w)) * w) * w;
}

#define LOG2_E 1.44269502f
#define LOG2_E_LOW 1.92596303e-8f  // what LOG2_E lacks
#define ROUNDER 12582912.0f        // 1.5 * 2^23: adding it rounds to a whole number, which is then in the low bits

// float32: exp(-|g|) = m * 2^k with the rounding errors of the exponent corrected; 2^k is a factor in four steps.
__device__ __forceinline__ float swiglu(float gate, float up, const float*) {
    const float a = fminf(fabsf(gate), 250.0f), shifted = fmaf(a, -LOG2_E, ROUNDER), whole = shifted - ROUNDER;
    const float m = exp2f(fmaf(a, -LOG2_E_LOW, fmaf(a, -LOG2_E, -whole)));
    const int k = __float_as_int(shifted) - 0x4B400000, quarter = (k + 3) >> 2;
    const float step = __int_as_float((quarter + 127) << 23), rest = m * __int_as_float((k - 3 * quarter + 127) << 23);
    const float e = (rest * step) * (step * step), d = 1.0f + e, fast = __fdividef(1.0f, d);
    const float r = fmaf(fmaf(-d, fast, 1.0f), fast, fast);  // 1 / d, by one Newton step
    // Below 1 the sigmoid is doubled and `up` halved, since the product of a subnormal number and 1/2 is inexact.
    if (a < 1.0f) return (gate * (2.0f * (gate > 0.0f ? r : e * r))) * (0.5f * up);
    if (gate > 0.0f) return (gate * r) * up;
    return (((up * step) * ((gate * r) * unless_far(rest, gate))) * step) * step;
}

// For expressions in which only the elements are known.
__device__ __forceinline__ float swiglu(float gate, float up) { return swiglu(gate, up, (const scalar_t*)nullptr); }

// One element a thread.
extern "C" __global__ void swiglu_scalar(const scalar_t* __restrict__ gate, const scalar_t* __restrict__ up,
                                         scalar_t* __restrict__ y, long long n) {
    map2_element<swiglu>(gate, up, y, n);
}

// 16 bytes of each array a thread, so fewer instructions for loads and stores.
extern "C" __global__ void swiglu_vec(const scalar_t* __restrict__ gate, const scalar_t* __restrict__ up,
                                      scalar_t* __restrict__ y, long long n) {
    map2_pack<swiglu>(gate, up, y, n);
}
