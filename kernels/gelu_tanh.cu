// GELU, tanh form: y = x/2 * (1 + tanh(u)), u = sqrt(2/pi) * (x + 0.044715 x^3), elementwise.
//
// 1 + tanh(u) cancels in the negative tail; (1 + tanh(u)) / 2 = 1 / (1 + exp(-2u)) does not. With a = |x| and q =
// exp(-2 u(a)) <= 1 it becomes y = max(x, 0) - a * q / (1 + q), for either sign of x: one exp2 and one division an
// element.
// A thread computes one element, or packs of 16 bytes. No data is shared, so the time is that of a copy as long as
// memory hides the arithmetic (bench/NOTES.md counts it).
// scalar_t is float, __half or __nv_bfloat16 (-Dscalar_t=...); the arithmetic is float32 in all three.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include "common/keep.cuh"
#include "common/map.cuh"
#include "common/positive_part.cuh"

// exp(-2 u(a)) = exp2(-a * (K1 + K3 a^2)): K1 = 2 sqrt(2/pi) log2(e), K3 = 0.044715 K1.
#define K1 2.30220795f
#define K1_LOW 2.5136697e-7f
#define K3 0.102943242f
#define K3_LOW -2.01619832e-9f
#define UNSCALE 1.26217745e-29f  // 2^-96

// float16: y = x * |[x > 0] - q / (1 + q)|. NaN for NaN and for -inf, as the reference; -0 stays -0. The argument of
// exp2f is an absolute value, and exp2f gives 1 / q. So the compiler knows that the result is not subnormal, and omits
// the three instructions that handle subnormals. The last argument only chooses the form.
__device__ __forceinline__ float gelu_tanh(float x, const __half*) {
    const float tail = __fdividef(1.0f, 1.0f + exp2f(fabsf(x * fmaf(x * x, K3, K1))));
    return x * fabsf((x > 0.0f ? 1.0f : 0.0f) - tail);
}

// bfloat16 reaches down to 2^-133, where 1 / q would overflow. Here exp2f gives the square root of q, which underflows
// only when it is squared. Its argument is 100 times a number in [0, 1], so again the compiler omits three
// instructions.
__device__ __forceinline__ float gelu_tanh(float x, const __nv_bfloat16*) {
    const float root = exp2f(-100.0f * __saturatef(fabsf(x) * fmaf(x * x, K3 / 200, K1 / 200)));
    const float q = root * root;
    return x * fabsf(fmaf(-q, __fdividef(1.0f, 1.0f + q), x > 0.0f ? 1.0f : 0.0f));
}

// float32: -2u / ln 2 reaches -160 before y underflows, and rounding that exponent alone would cost 60 ULP of y. So a
// second number, `low`, holds what rounding loses, and the whole part of the exponent is subtracted before the two are
// added.
__device__ __forceinline__ float gelu_tanh(float x, const float*) {
    const float a = fminf(fabsf(x), 12.0f);  // beyond 12 every result is x or 0; avoids inf * 0
    const float s = a * a, s_low = fmaf(a, a, -s);
    const float p = fmaf(s, K3, K1);  // K1 has few bits, so that K1 - p is exact
    const float low = fmaf(s_low, K3, fmaf(s, K3_LOW, fmaf(s, K3, K1 - p) + K1_LOW));
    // -a * p = k + f, k whole. Adding 1.5 * 2^23 + 96 rounds to a whole number, whose low bits are then k + 96.
    const float shifted = fmaf(a, -p, 12583008.0f), whole = shifted - 12583008.0f;
    const float f = fmaf(a, -low, fmaf(a, -p, -whole));
    float e = 0.000153458124f;  // exp2(f), bench/fit_gelu.py
    e = fmaf(e, f, 0.00133999309f);
    e = fmaf(e, f, 0.00961848907f);
    e = fmaf(e, f, 0.0555032864f);
    e = fmaf(e, f, 0.240226462f);
    e = fmaf(e, f, 0.693147182f);
    e = fmaf(e, f, 1.0f);
    // e * 2^(k + 96), by an addition to the exponent's bits. 2^-96 comes last: k reaches -206, and y may be subnormal.
    e = __uint_as_float(__float_as_uint(e) + (__float_as_uint(shifted) << 23));
    return fmaf(-(a * __fdividef(e, fmaf(e, UNSCALE, 1.0f))), UNSCALE, positive_part(x));
}

// For expressions in which only the element is known.
__device__ __forceinline__ float gelu_tanh(float x) { return gelu_tanh(x, (const scalar_t*)nullptr); }

// One element a thread. The index has 64 bits: 2^31 elements are 8 GB of float32, which cards hold.
// On an H200 at 154 million elements: 0.58 of a copy's speed in float32, a third in 16 bits.
extern "C" __global__ void gelu_tanh_scalar(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = scalar_t(gelu_tanh(float(x[i])));
}

// VEC_PACKS packs a thread, since index, bounds and alignment cost a thread as much as one element does; one pack where
// two would leave too few threads (packs == 1). The launch bounds leave 40 registers, enough for both packs at once. On
// an H200 at 154 million elements: float32 1.00 of a copy's speed, 0.98 with one pack; 16 bits 0.995, 1.00 with one
// pack. At 4.8 million elements, which fit in L2, two packs take 5 to 7 % less time back to back (2 % in bfloat16), and
// exp2f without its guard for subnormals saves 4 to 5 % in 16 bits.
extern "C" __global__ void __launch_bounds__(VEC_THREADS, 1536 / VEC_THREADS)
    gelu_tanh_vec(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, long long n, int packs) {
    if (packs == 1) map_block<gelu_tanh, 1>(kept(x), y, n);
    else map_block<gelu_tanh, VEC_PACKS>(kept(x), y, n);
}
