// Gradient of GELU (erf form): dx = dy * g(x), g(x) = Phi(x) + x * phi(x), elementwise, without erff.
//
// erff and an exponential take too many instructions in 16 bits, and Phi(x) + x * phi(x) cancels: for x < 0 it falls
// like a Gaussian and changes sign at -A0 = -0.75. Here, with a = |x|, g(-a) = exp(-a^2/2) * (A0 - a) * R(a), and g(a)
// = 1 - g(-a). The sign change is a factor of its own. R lies between 0.39 and 0.67 and is fitted in relative error
// (bench/fit_gelu.py): in float32 by a polynomial in v = a / (a + C), in 16 bits together with the Gaussian by exp2 of
// a polynomial. So both the tail and the zero keep their digits. Beyond a = 20 (float16: 7.7) even the largest dy gives
// 0. A thread computes one element, or 16 bytes of each array. Two reads and one write an element take 1.5 times as
// long as in gelu.cu, so memory hides more arithmetic.
// scalar_t is float, __half or __nv_bfloat16 (-Dscalar_t=...); the arithmetic is float32 in all three.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include "common/gaussian.cuh"
#include "common/map2.cuh"

// A0 = A0_HIGH + A0_LOW, and A0_HIGH - a is exact where the two are close. 16 bits leave A0_LOW out: no bfloat16 is
// close enough to A0 to show it, and of float16 only the nearest is, for which it is 0.15 ULP (0.74 in all).
#define A0_HIGH 0.751791537f
#define A0_LOW -1.21144499e-8f

// A factor of g(-a), or 0 where float64 has g(-a) = 0: then inf * g is NaN in the reference, and here too. For a
// smaller a, inf * g is infinite in both. 0 * (A0 - a) is NaN for an infinite a, as in the reference.
__device__ __forceinline__ float unless_far(float r, float a) { return a > 38.6f ? 0.0f : r; }

// 16 bits: w = -log2(exp(-a^2/2) * R(a)) / 300 in bfloat16, / 140 in float16, a polynomial in a that rises without
// bound. exp2f gives the cube root or the square root, since the Gaussian itself underflows where a large dy would
// bring the product back. Its argument is 100 (70) times a number in [0, 1], so the compiler knows that the result is
// not subnormal and omits the three instructions that handle subnormals. The last argument only chooses the form.
__device__ __forceinline__ float gelu_backward(float dy, float x, const __nv_bfloat16*) {
    const float a = fabsf(x);
    float w = 2.06911441e-12f;
    w = fmaf(w, a, -1.93597777e-10f);
    w = fmaf(w, a, 7.73422304e-09f);
    w = fmaf(w, a, -1.7266575e-07f);
    w = fmaf(w, a, 2.37245604e-06f);
    w = fmaf(w, a, -2.09174068e-05f);
    w = fmaf(w, a, 0.000120763507f);
    w = fmaf(w, a, 0.00193894433f);
    w = fmaf(w, a, 0.00124608749f);
    const float root = unless_far(exp2f(-100.0f * __saturatef(fmaf(w, a, 0.00196365849f))), a);
    const float m = root * (A0_HIGH - a);  // the product with dy takes one root at a time
    return x > 0.0f ? dy * fmaf(-(m * root), root, 1.0f) : ((dy * root) * m) * root;
}

__device__ __forceinline__ float gelu_backward(float dy, float x, const __half*) {
    const float a = fabsf(x);
    float w = 2.4919828e-08f;
    w = fmaf(w, a, -7.57250348e-07f);
    w = fmaf(w, a, 9.80974437e-06f);
    w = fmaf(w, a, -7.18711453e-05f);
    w = fmaf(w, a, 0.000337071018f);
    w = fmaf(w, a, 0.00404794049f);
    w = fmaf(w, a, 0.00272412947f);
    const float root = unless_far(exp2f(-70.0f * __saturatef(fmaf(w, a, 0.0042035263f))), a);
    // float16 has no dy so large that g(-a) would have to be smaller than float32 can hold:
    // g(x) = [x > 0] -+ root^2 * (A0 - a).
    const float positive = x > 0.0f ? 1.0f : 0.0f, from = fmaf(positive, -2.0f * A0_HIGH, x + A0_HIGH);
    return dy * fmaf(root * from, root, positive);
}

// float32: the rounding errors of a^2 and of v are corrected, and exp2 is a polynomial, since the hardware's is 2 ULP
// off.
__device__ __forceinline__ float gelu_backward(float dy, float x, const float*) {
    const float a = fminf(fabsf(x), 20.0f), v = fraction_of(a, 3.6953125f);
    float r = 0.00915652327f;
    r = fmaf(r, v, -0.0245953873f);
    r = fmaf(r, v, -0.00479900325f);
    r = fmaf(r, v, 0.0654761344f);
    r = fmaf(r, v, 0.0272465497f);
    r = fmaf(r, v, -0.365244716f);
    r = fmaf(r, v, 0.679417789f);
    r = fmaf(r, v, -0.652788103f);
    r = unless_far(fmaf(r, v, 0.665077984f), fabsf(x));
    const float s = a * a, shifted = shifted_exponent(s), f = exponent_fraction(s, fmaf(a, a, -s), shifted);
    const float e = slope(f) * f;
    // (A0 - a) * r * (1 + e), with what the sum and A0 lose: near x = -1.8 each of these roundings would show.
    const float high = fmaf(r, e, r), low = fmaf(r, e, r - high), from = A0_HIGH - fabsf(x);
    const float g = fmaf(high, from, fmaf(high, A0_LOW, low * from));
    // Times 2^k in four steps, with dy multiplied in between: k reaches -289, and dy may be large or small.
    const int k = __float_as_int(shifted) - 0x4B400000, quarter = k >> 2;
    const float step = __int_as_float((quarter + 127) << 23), rest = __int_as_float((k - 3 * quarter + 127) << 23);
    const float m = g * rest, two = step * step;
    return x > 0.0f ? dy * fmaf(-(m * step), two, 1.0f) : ((dy * step) * m) * two;
}

// For expressions in which only the elements are known.
__device__ __forceinline__ float gelu_backward(float dy, float x) {
    return gelu_backward(dy, x, (const scalar_t*)nullptr);
}

// One element a thread. On an H200 at 154 million elements: three quarters of a copy's speed in float32, less than half
// in 16 bits.
extern "C" __global__ void gelu_backward_scalar(const scalar_t* __restrict__ dy, const scalar_t* __restrict__ x,
                                                scalar_t* __restrict__ dx, long long n) {
    map2_element<gelu_backward>(dy, x, dx, n);
}

// 16 bytes of each array a thread. The compiler takes 30 to 32 registers, so all 64 warps of a multiprocessor fit. With
// launch bounds that allow more registers both loads are issued before the first is used, but fewer warps fit: 4 %
// slower. exp2f without its guard for subnormals, and the changes that came with it, save 12 % in float16 and 4 % in
// bfloat16 at 4.8 million elements, which fit in L2, and 2 % in bfloat16 at 154 million.
extern "C" __global__ void gelu_backward_vec(const scalar_t* __restrict__ dy, const scalar_t* __restrict__ x,
                                             scalar_t* __restrict__ dx, long long n) {
    map2_pack<gelu_backward>(dy, x, dx, n);
}
