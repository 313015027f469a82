// Arithmetic and conversions whose name says how they round: __fadd_rz, __dmul_rn, __double2float_ru, __float2half_rd.
// In C++ they round in the mode of <fenv.h>, which holds between volatile accesses: the compiler keeps their order.
#pragma once
#include <fenv.h>

namespace cudalab {

// The result of `compute(x...)`, which the processor rounds as `mode` says.
template <class Compute, class... T> inline auto rounded(int mode, Compute compute, T... x) -> decltype(compute(x...)) {
    using result = decltype(compute(x...));
    if (mode == FE_TONEAREST) return compute(x...);  // the mode of the CPU, and of the compiler
    const int before = fegetround();
    fesetround(mode);
    const volatile result found = [&](const volatile T... late) { return compute(T(late)...); }(x...);
    fesetround(before);
    return result(found);
}

// The neighbour of `nearest` that the mode asks for, where the exact value is not the nearest number.
template <class Narrow, class T> inline Narrow directed(int mode, T given) {
    const Narrow nearest = given;
    if (mode == FE_TONEAREST) return nearest;
    const long double got = float(nearest), exact = given;
    const bool too_high = got > exact && (mode == FE_DOWNWARD || (mode == FE_TOWARDZERO && exact > 0));
    const bool too_low = got < exact && (mode == FE_UPWARD || (mode == FE_TOWARDZERO && exact < 0));
    if (!too_high && !too_low) return nearest;
    if ((nearest.bits & 0x7fff) == 0) return Narrow::from_bits(too_low ? 0x0001 : 0x8001);
    return Narrow::from_bits(uint16_t(nearest.bits + ((nearest.bits >> 15) == too_high ? 1 : -1)));
}

}  // namespace cudalab

#define CUDALAB_MODES(make, ...)                                                                              \
    make(__VA_ARGS__, rn, FE_TONEAREST) make(__VA_ARGS__, rd, FE_DOWNWARD) make(__VA_ARGS__, ru, FE_UPWARD) \
    make(__VA_ARGS__, rz, FE_TOWARDZERO)
#define CUDALAB_ROUND_1(name, T, From, expression, suffix, mode)                                             \
    inline T name##_##suffix(From a) { return cudalab::rounded(mode, [](From x) { return T(expression); }, a); }
#define CUDALAB_ROUND_2(name, T, expression, suffix, mode)                                                   \
    inline T name##_##suffix(T a, T b) { return cudalab::rounded(mode, [](T x, T y) { return T(expression); }, a, b); }
#define CUDALAB_ROUND_3(name, T, function, suffix, mode)                                                     \
    inline T name##_##suffix(T a, T b, T c) {                                                                \
        return cudalab::rounded(mode, [](T x, T y, T z) { return function(x, y, z); }, a, b, c);             \
    }
#define CUDALAB_ARITHMETIC(f, fma_of, T, root, fused)                                                        \
    CUDALAB_MODES(CUDALAB_ROUND_2, __##f##add, T, x + y) CUDALAB_MODES(CUDALAB_ROUND_2, __##f##sub, T, x - y) \
    CUDALAB_MODES(CUDALAB_ROUND_2, __##f##mul, T, x * y) CUDALAB_MODES(CUDALAB_ROUND_2, __##f##div, T, x / y) \
    CUDALAB_MODES(CUDALAB_ROUND_1, __##f##rcp, T, T, 1 / x) CUDALAB_MODES(CUDALAB_ROUND_1, __##f##sqrt, T, T, root(x)) \
    CUDALAB_MODES(CUDALAB_ROUND_3, fma_of, T, fused)
CUDALAB_ARITHMETIC(f, __fmaf, float, sqrtf, fmaf)
CUDALAB_ARITHMETIC(d, __fma, double, sqrt, fma)
CUDALAB_MODES(CUDALAB_ROUND_3, __fmaf_ieee, float, fmaf)
inline float __frsqrt_rn(float x) { return rsqrtf(x); }

CUDALAB_MODES(CUDALAB_ROUND_1, __int2float, float, int, x)
CUDALAB_MODES(CUDALAB_ROUND_1, __uint2float, float, unsigned, x)
CUDALAB_MODES(CUDALAB_ROUND_1, __ll2float, float, long long, x)
CUDALAB_MODES(CUDALAB_ROUND_1, __ull2float, float, unsigned long long, x)
CUDALAB_MODES(CUDALAB_ROUND_1, __ll2double, double, long long, x)
CUDALAB_MODES(CUDALAB_ROUND_1, __ull2double, double, unsigned long long, x)
CUDALAB_MODES(CUDALAB_ROUND_1, __double2float, float, double, x)
inline double __int2double_rn(int x) { return x; }
inline double __uint2double_rn(unsigned x) { return x; }

// ---- half and bfloat16 ----------------------------------------------------------------------------------------------
#define CUDALAB_TO_NARROW(H, name, from, From, suffix, mode) \
    inline H __##from##2##name##_##suffix(From x) { return cudalab::directed<H>(mode, x); }
#define CUDALAB_FROM_NARROW(H, to, To, from, suffix, whole)                                                   \
    inline To __##from##2##to##_##suffix(H x) { return cudalab::saturate<To>(whole(double(float(x)))); }
#define CUDALAB_NARROW_INTEGER(H, half, bfloat, name, T)                                                      \
    CUDALAB_MODES(CUDALAB_TO_NARROW, H, half, name, T)                                                        \
    CUDALAB_FROM_NARROW(H, name, T, bfloat, rn, nearbyint) CUDALAB_FROM_NARROW(H, name, T, bfloat, rz, trunc) \
    CUDALAB_FROM_NARROW(H, name, T, bfloat, rd, floor) CUDALAB_FROM_NARROW(H, name, T, bfloat, ru, ceil)
#define CUDALAB_NARROW(H, half, from)                                                                         \
    CUDALAB_NARROW_INTEGER(H, half, from, int, int) CUDALAB_NARROW_INTEGER(H, half, from, uint, unsigned)     \
    CUDALAB_NARROW_INTEGER(H, half, from, ll, long long)                                                      \
    CUDALAB_NARROW_INTEGER(H, half, from, ull, unsigned long long)                                            \
    CUDALAB_NARROW_INTEGER(H, half, from, short, short)                                                       \
    CUDALAB_NARROW_INTEGER(H, half, from, ushort, unsigned short)                                             \
    CUDALAB_FROM_NARROW(H, char, signed char, from, rz, trunc)                                                \
    CUDALAB_FROM_NARROW(H, uchar, unsigned char, from, rz, trunc)                                             \
    CUDALAB_MODES(CUDALAB_TO_NARROW, H, half, float, float)
CUDALAB_NARROW(__half, half, half)
CUDALAB_NARROW(__nv_bfloat16, bfloat16, bfloat16)
#undef CUDALAB_NARROW
#undef CUDALAB_NARROW_INTEGER
#undef CUDALAB_FROM_NARROW
#undef CUDALAB_TO_NARROW
#undef CUDALAB_ARITHMETIC
#undef CUDALAB_ROUND_1
#undef CUDALAB_ROUND_2
#undef CUDALAB_ROUND_3
#undef CUDALAB_MODES
