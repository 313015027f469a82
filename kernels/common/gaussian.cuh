// exp(-a^2 / 2) in float32 to within a fraction of a ULP: exp2 of an exponent that is split into a whole number k and a
// fraction f.
//
// Rounding a^2 to float32 changes the result by up to a^2 / 4 ULP, so the caller passes what the rounding lost. exp2f
// of the hardware is 2 ULP off, so exp2 of the fraction is a polynomial (bench/fit_gelu.py makes it). The fraction is
// exact except for the last two roundings.
//
//     shifted = shifted_exponent(s)
//     f = exponent_fraction(s, s_low, shifted)
//     exp(-a^2/2) = 2^k * (1 + f * slope(f))
//
// where s = a * a in float32, s_low = fmaf(a, a, -s), and k is in the low bits of `shifted`.
#pragma once

// exp(-a^2/2) = exp2(-a^2 * HALF_LOG2_E). The fraction is counted in units of 1/UNIT. UNIT is chosen so that
// HALF_LOG2_E * UNIT is a float to within 5e-13 of its value, and has so few bits that its product with a whole number
// is exact.
#define HALF_LOG2_E 0.721347511f
#define UNIT 1.93115234f
#define HALF_LOG2_E_UNIT 1.39303195f
#define ROUNDER 12582912.0f  // 1.5 * 2^23: adding it rounds to a whole number, which is then in the low bits

__device__ __forceinline__ float shifted_exponent(float s) { return fmaf(s, -HALF_LOG2_E, ROUNDER); }

__device__ __forceinline__ float exponent_fraction(float s, float s_low, float shifted) {
    const float whole = fmaf(shifted, UNIT, -ROUNDER * UNIT);
    return fmaf(s_low, -HALF_LOG2_E_UNIT, fmaf(s, -HALF_LOG2_E_UNIT, -whole));
}

// (exp2(f / UNIT) - 1) / f. A polynomial for exp2 itself would begin with 1, and that sum would be rounded once more.
__device__ __forceinline__ float slope(float f) {
    float e = 3.0157621e-06f;
    e = fmaf(e, f, 4.99486232e-05f);
    e = fmaf(e, f, 0.000691506662f);
    e = fmaf(e, f, 0.007706651f);
    e = fmaf(e, f, 0.0644151345f);
    return fmaf(e, f, 0.358929336f);
}

// a / (a + c), the variable of the fits beside the Gaussian. The hardware's reciprocal is up to 1 ULP off; one Newton
// step on the quotient removes that error.
__device__ __forceinline__ float fraction_of(float a, float c) {
    const float d = a + c, r = __fdividef(1.0f, d), v = a * r;
    return fmaf(r, fmaf(-v, d, a), v);
}
