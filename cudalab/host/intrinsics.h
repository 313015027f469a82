// The functions that CUDA has without any #include and that the C library lacks. The "fast" ones (__expf, ...) are
// exact here: their error on a GPU cannot be reproduced, and the kernel's tolerance has to allow for it.
#pragma once
// <math.h> as well as <cmath>: without it exp(float) in the global namespace is silently the double function.
#include <cmath>
#include <math.h>
#include <float.h>
#include <limits.h>
#include <limits>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <type_traits>

#define CUDALAB_INLINE inline __attribute__((always_inline))

namespace cudalab {
template <class To, class From> CUDALAB_INLINE To bits_as(From from) {
    static_assert(sizeof(To) == sizeof(From), "same size");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}
}  // namespace cudalab

// ---- single precision -----------------------------------------------------------------------------------------------
// Macros, since glibc itself declares __expf and the like.
#define __expf(x) expf(x)
#define __exp10f(x) exp10f(x)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __log10f(x) log10f(x)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
#define __tanf(x) tanf(x)
#define __tanhf(x) tanhf(x)
#define __powf(x, y) powf(x, y)
#define __sincosf(x, s, c) sincosf(x, s, c)
extern "C" {  // these are C23 as well: newer C libraries declare them, with C linkage
inline float rsqrtf(float x) noexcept { return float(1.0 / sqrt(double(x))); }
inline double rsqrt(double x) noexcept { return 1.0 / sqrt(x); }
inline float sinpif(float x) noexcept { return float(sin(M_PI * fmod(double(x), 2.0))); }
inline float cospif(float x) noexcept { return float(cos(M_PI * fmod(double(x), 2.0))); }
}
CUDALAB_INLINE float rsqrt(float x) { return rsqrtf(x); }
CUDALAB_INLINE float rcbrtf(float x) { return float(1.0 / cbrt(double(x))); }
CUDALAB_INLINE double rcbrt(double x) { return 1.0 / cbrt(x); }
CUDALAB_INLINE float normcdff(float x) { return float(0.5 * erfc(-0.70710678118654752440 * double(x))); }
CUDALAB_INLINE double normcdf(double x) { return 0.5 * erfc(-0.70710678118654752440 * x); }
CUDALAB_INLINE float rhypotf(float x, float y) { return float(1.0 / hypot(double(x), double(y))); }
CUDALAB_INLINE float norm3df(float x, float y, float z) {
    return float(sqrt(double(x) * x + double(y) * y + double(z) * z));
}
CUDALAB_INLINE float rnorm3df(float x, float y, float z) {
    return float(1.0 / sqrt(double(x) * x + double(y) * y + double(z) * z));
}
inline void sincospif(float x, float* s, float* c) { *s = sinpif(x), *c = cospif(x); }
// The inverse of the normal distribution: Newton steps on erfc from a start with three correct digits (Abramowitz and
// Stegun 26.2.23).
inline double normcdfinv(double p) noexcept {
    if (!(p > 0 && p < 1)) return p == 0 ? -INFINITY : p == 1 ? INFINITY : NAN;
    const double t = sqrt(-2 * log(p < 0.5 ? p : 1 - p));
    double x = t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
    x = -x;  // in the lower tail, where no digits are lost
    const double tail = p < 0.5 ? p : 1 - p;
    for (int step = 0; step < 4; ++step)
        x -= (0.5 * erfc(-x * 0.70710678118654752440) - tail) / (0.39894228040143267794 * exp(-0.5 * x * x));
    return p < 0.5 ? x : -x;
}
inline float normcdfinvf(float p) { return float(normcdfinv(p)); }
inline double erfinv(double x) { return normcdfinv(0.5 + 0.5 * x) * 0.70710678118654752440; }
inline float erfinvf(float x) { return float(erfinv(x)); }
inline double erfcinv(double x) { return -normcdfinv(0.5 * x) * 0.70710678118654752440; }
inline float erfcinvf(float x) { return float(erfcinv(x)); }
CUDALAB_INLINE float fdividef(float a, float b) { return a / b; }
CUDALAB_INLINE float __fdividef(float a, float b) { return a / b; }
CUDALAB_INLINE float __fdiv_rn(float a, float b) { return a / b; }
CUDALAB_INLINE float __frcp_rn(float a) { return 1.0f / a; }
CUDALAB_INLINE float __fsqrt_rn(float a) { return sqrtf(a); }
CUDALAB_INLINE float __frsqrt_rn(float a) { return rsqrtf(a); }
CUDALAB_INLINE float __fadd_rn(float a, float b) { return a + b; }
CUDALAB_INLINE float __fsub_rn(float a, float b) { return a - b; }
CUDALAB_INLINE float __fmul_rn(float a, float b) { return a * b; }
CUDALAB_INLINE float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
CUDALAB_INLINE double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
CUDALAB_INLINE float __saturatef(float x) { return fminf(fmaxf(x, 0.0f), 1.0f); }  // NaN becomes 0, as in CUDA

// ---- conversions ----------------------------------------------------------------------------------------------------
// CUDA saturates where C++ leaves the result undefined; NaN gives 0 (PTX cvt.rni.s32.f32).
namespace cudalab {
template <class I> CUDALAB_INLINE I saturate(double x) {
    if (x != x) return 0;
    if (x <= double(std::numeric_limits<I>::min())) return std::numeric_limits<I>::min();
    if (x >= double(std::numeric_limits<I>::max())) return std::numeric_limits<I>::max();
    return I(x);
}
}  // namespace cudalab
#define CUDALAB_CONVERT(from, to, From, To)                                                        \
    CUDALAB_INLINE To __##from##2##to##_rn(From x) { return cudalab::saturate<To>(nearbyint(x)); } \
    CUDALAB_INLINE To __##from##2##to##_rz(From x) { return cudalab::saturate<To>(trunc(x)); }     \
    CUDALAB_INLINE To __##from##2##to##_rd(From x) { return cudalab::saturate<To>(floor(x)); }     \
    CUDALAB_INLINE To __##from##2##to##_ru(From x) { return cudalab::saturate<To>(ceil(x)); }
CUDALAB_CONVERT(float, int, float, int)
CUDALAB_CONVERT(float, uint, float, unsigned)
CUDALAB_CONVERT(float, ll, float, long long)
CUDALAB_CONVERT(float, ull, float, unsigned long long)
CUDALAB_CONVERT(double, int, double, int)
CUDALAB_CONVERT(double, uint, double, unsigned)
CUDALAB_CONVERT(double, ll, double, long long)
CUDALAB_CONVERT(double, ull, double, unsigned long long)
#undef CUDALAB_CONVERT
CUDALAB_INLINE float __int2float_rn(int x) { return float(x); }
CUDALAB_INLINE float __uint2float_rn(unsigned x) { return float(x); }
CUDALAB_INLINE float __ll2float_rn(long long x) { return float(x); }
CUDALAB_INLINE float __ull2float_rn(unsigned long long x) { return float(x); }
CUDALAB_INLINE double __int2double_rn(int x) { return double(x); }
CUDALAB_INLINE double __uint2double_rn(unsigned x) { return double(x); }
CUDALAB_INLINE double __ll2double_rn(long long x) { return double(x); }
CUDALAB_INLINE double __ull2double_rn(unsigned long long x) { return double(x); }
CUDALAB_INLINE float __double2float_rn(double x) { return float(x); }
CUDALAB_INLINE int __float_as_int(float x) { return cudalab::bits_as<int>(x); }
CUDALAB_INLINE float __int_as_float(int x) { return cudalab::bits_as<float>(x); }
CUDALAB_INLINE unsigned __float_as_uint(float x) { return cudalab::bits_as<unsigned>(x); }
CUDALAB_INLINE float __uint_as_float(unsigned x) { return cudalab::bits_as<float>(x); }
CUDALAB_INLINE long long __double_as_longlong(double x) { return cudalab::bits_as<long long>(x); }
CUDALAB_INLINE int __double2hiint(double x) { return int(cudalab::bits_as<uint64_t>(x) >> 32); }
CUDALAB_INLINE int __double2loint(double x) { return int(cudalab::bits_as<uint64_t>(x)); }
CUDALAB_INLINE double __hiloint2double(int high, int low) {
    return cudalab::bits_as<double>(uint64_t(unsigned(high)) << 32 | unsigned(low));
}
CUDALAB_INLINE double __longlong_as_double(long long x) { return cudalab::bits_as<double>(x); }

// ---- min and max: CUDA has them for every pair of number types; for floating point NaN loses, as in fmax ------------
#define CUDALAB_MIN_MAX(T)                                     \
    CUDALAB_INLINE T min(T a, T b) { return b < a ? b : a; }   \
    CUDALAB_INLINE T max(T a, T b) { return a < b ? b : a; }
CUDALAB_MIN_MAX(int)
CUDALAB_MIN_MAX(unsigned)
CUDALAB_MIN_MAX(long)
CUDALAB_MIN_MAX(unsigned long)
CUDALAB_MIN_MAX(long long)
CUDALAB_MIN_MAX(unsigned long long)
#undef CUDALAB_MIN_MAX
CUDALAB_INLINE float min(float a, float b) { return fminf(a, b); }
CUDALAB_INLINE float max(float a, float b) { return fmaxf(a, b); }
CUDALAB_INLINE double min(double a, double b) { return fmin(a, b); }
CUDALAB_INLINE double max(double a, double b) { return fmax(a, b); }
namespace cudalab {
template <class A, class B> using mixed = typename std::enable_if<
    std::is_arithmetic<A>::value && std::is_arithmetic<B>::value && !std::is_same<A, B>::value,
    typename std::common_type<A, B>::type>::type;
}
CUDALAB_INLINE unsigned umin(unsigned a, unsigned b) { return min(a, b); }
CUDALAB_INLINE unsigned umax(unsigned a, unsigned b) { return max(a, b); }
CUDALAB_INLINE long long llmin(long long a, long long b) { return min(a, b); }
CUDALAB_INLINE long long llmax(long long a, long long b) { return max(a, b); }
CUDALAB_INLINE unsigned long long ullmin(unsigned long long a, unsigned long long b) { return min(a, b); }
CUDALAB_INLINE unsigned long long ullmax(unsigned long long a, unsigned long long b) { return max(a, b); }
template <class A, class B, class T = cudalab::mixed<A, B>> CUDALAB_INLINE T min(A a, B b) { return min(T(a), T(b)); }
template <class A, class B, class T = cudalab::mixed<A, B>> CUDALAB_INLINE T max(A a, B b) { return max(T(a), T(b)); }

// ---- memory: a cache hint is a plain access here --------------------------------------------------------------------
namespace cudalab {
inline void looked(const void* address, uint64_t value);  // in fibers.h or flat.h
inline uint64_t digest(const void* bytes, size_t count) {
    uint64_t words[2] = {};
    memcpy(words, bytes, count < 16 ? count : 16);
    return words[0] ^ words[1] * 0x9e3779b97f4a7c15ull;
}
// A load past L1, with which a thread may wait for another one: read from memory each time.
template <class T> CUDALAB_INLINE T loaded_afresh(const T* p) {
#if CUDALAB_FIBERS
    looked(p, digest(p, sizeof(T)));
    __asm__ volatile("" ::: "memory");
#endif
    return *p;
}
}  // namespace cudalab
#define CUDALAB_LOAD(name) template <class T> CUDALAB_INLINE T name(const T* p) { return *p; }
#define CUDALAB_LOAD_AFRESH(name) template <class T> CUDALAB_INLINE T name(const T* p) { return cudalab::loaded_afresh(p); }
#define CUDALAB_STORE(name)                                                            \
    template <class T> CUDALAB_INLINE void name(T* p, typename std::common_type<T>::type v) { *p = v; }
CUDALAB_LOAD(__ldg)
CUDALAB_LOAD(__ldca)
CUDALAB_LOAD_AFRESH(__ldcg)
CUDALAB_LOAD(__ldcs)
CUDALAB_LOAD_AFRESH(__ldcv)
CUDALAB_LOAD(__ldlu)
CUDALAB_STORE(__stcg)
CUDALAB_STORE(__stcs)
CUDALAB_STORE(__stwb)
CUDALAB_STORE(__stwt)
#undef CUDALAB_LOAD
#undef CUDALAB_LOAD_AFRESH
#undef CUDALAB_STORE
CUDALAB_INLINE void* __nv_associate_access_property(const void* p, unsigned long long) { return const_cast<void*>(p); }

// ---- time, in nanoseconds instead of the GPU's clock cycles ---------------------------------------------------------
#ifndef __clang__
#define __builtin_assume(condition) ((void)0)
#endif
inline long long clock64() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}
