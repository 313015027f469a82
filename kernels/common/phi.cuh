// Phi(-a), a >= 0: the lower tail of the normal distribution, fitted in relative error, so that the tail keeps its
// digits (bench/fit_gelu.py makes the coefficients and prints the error bounds). x * Phi(x) without erff follows from
// it.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include "gaussian.cuh"

// 16 bits: w = -log2(Phi(-a)) / 200, a polynomial in a that rises without bound. The last argument only chooses the
// fit.
__device__ __forceinline__ float phi_exponent(float a, const __nv_bfloat16*) {
    float w = 1.6326891e-09f;
    w = fmaf(w, a, -9.05027733e-08f);
    w = fmaf(w, a, 2.11409565e-06f);
    w = fmaf(w, a, -2.74390295e-05f);
    w = fmaf(w, a, 0.000222595874f);
    w = fmaf(w, a, 0.00236389274f);
    w = fmaf(w, a, 0.005715081f);
    return fmaf(w, a, 0.00500369165f);
}

__device__ __forceinline__ float phi_exponent(float a, const __half*) {
    float w = 1.65309007e-06f;
    w = fmaf(w, a, -2.96244343e-05f);
    w = fmaf(w, a, 0.000242837617f);
    w = fmaf(w, a, 0.00231826375f);
    w = fmaf(w, a, 0.00574715575f);
    return fmaf(w, a, 0.00500048883f);
}

// x * Phi(x) from w: Phi(-|x|) = exp2(-100 w)^2. NaN for NaN and for -inf, as the reference; x for +inf; -0 stays -0.
// The argument of exp2f is 100 times a number in [0, 1], so the compiler knows that the result is not subnormal and
// omits the three instructions that handle subnormals. Where w is 1 the square underflows to 0, as Phi does there.
__device__ __forceinline__ float times_phi(float x, float w) {
    const float root = exp2f(-100.0f * __saturatef(w));
    return x * fabsf(fmaf(-root, root, x > 0.0f ? 1.0f : 0.0f));
}

// float32: a * Phi(-a) = v * q * exp(-a^2/2), v = a / (a + PHI_C), q a polynomial in v. q is scaled by 2^-64, since the
// power of two that follows is 2^(k + 64): k reaches -185, and only the last product may be subnormal.
#define PHI_C 2.48925781f
#define DOWN 5.42101086e-20f  // 2^-64

__device__ __forceinline__ float phi_quotient(float v) {
    float q = DOWN * -0.0803089514f;
    q = fmaf(q, v, DOWN * 0.285141498f);
    q = fmaf(q, v, DOWN * -0.325884044f);
    q = fmaf(q, v, DOWN * 0.146930367f);
    q = fmaf(q, v, DOWN * -0.151115358f);
    q = fmaf(q, v, DOWN * 0.0612850487f);
    q = fmaf(q, v, DOWN * 0.288774222f);
    q = fmaf(q, v, DOWN * 0.156872556f);
    q = fmaf(q, v, DOWN * -1.22738206f);
    return fmaf(q, v, DOWN * 1.24462891f);
}

// q * exp(-a^2/2), from a^2 = s + s_low.
__device__ __forceinline__ float times_gaussian(float q, float s, float s_low) {
    const float shifted = shifted_exponent(s), f = exponent_fraction(s, s_low, shifted), e = slope(f);
    q *= __uint_as_float((__float_as_uint(shifted) << 23) + 0x5F800000u);
    return fmaf(q, e * f, q);
}
