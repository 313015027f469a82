// The functions that CUDA has without any #include and that the C library lacks. The "fast" ones (__expf, ...) are
// exact here: their error on a GPU cannot be reproduced, and the kernel's tolerance has to allow for it.
#pragma once
// <math.h> as well as <cmath>: without it exp(float) in the global namespace is silently the double function.
// The functions that GNU's <cmath> has beside C's (Bessel's and the like), no GPU has: it takes a third of the time of
// all headers to read them, and they are left out. The guard is that of their header, which brings std::min too.
#define _GLIBCXX_BITS_SPECFUN_H 1
#include <cmath>
#if __has_include(<bits/stl_algobase.h>)
#include <bits/stl_algobase.h>
#else
#include <algorithm>
#endif
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
inline double sinpi(double x) noexcept {  // exact at multiples of a half
    const double part = x - 2 * rint(0.5 * x);
    return sin(M_PI * (fabs(part) > 0.5 ? copysign(1.0, part) - part : part));
}
inline double cospi(double x) noexcept { return sinpi(0.5 - fabs(x - 2 * rint(0.5 * x))); }
inline float sinpif(float x) noexcept { return float(sinpi(x)); }
inline float cospif(float x) noexcept { return float(cospi(x)); }
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
inline void sincospi(double x, double* s, double* c) { *s = sinpi(x), *c = cospi(x); }
CUDALAB_INLINE double rhypot(double x, double y) { return 1.0 / hypot(x, y); }
inline double norm(int dim, const double* p) {
    double sum = 0;
    for (int i = 0; i < dim; ++i) sum = hypot(sum, p[i]);
    return sum;
}
inline double rnorm(int dim, const double* p) { return 1.0 / norm(dim, p); }
inline float normf(int dim, const float* p) {
    double sum = 0;
    for (int i = 0; i < dim; ++i) sum += double(p[i]) * p[i];
    return float(sqrt(sum));
}
inline float rnormf(int dim, const float* p) { return 1.0f / normf(dim, p); }
CUDALAB_INLINE double norm3d(double x, double y, double z) { return hypot(hypot(x, y), z); }
CUDALAB_INLINE double norm4d(double x, double y, double z, double w) { return hypot(hypot(x, y), hypot(z, w)); }
CUDALAB_INLINE double rnorm3d(double x, double y, double z) { return 1.0 / norm3d(x, y, z); }
CUDALAB_INLINE double rnorm4d(double x, double y, double z, double w) { return 1.0 / norm4d(x, y, z, w); }
CUDALAB_INLINE float norm4df(float x, float y, float z, float w) { return float(norm4d(x, y, z, w)); }
CUDALAB_INLINE float rnorm4df(float x, float y, float z, float w) { return float(rnorm4d(x, y, z, w)); }
// exp(x * x) * erfc(x): above 5 its continued fraction, since erfc underflows.
inline double erfcx(double x) {
    if (x < 5) {
        const double square = x * x;
        return exp(square) * (1 + fma(x, x, -square)) * erfc(x);
    }
    double tail = 0;
    for (int k = 60; k > 0; --k) tail = 0.5 * k / (x + tail);
    return 0.56418958354775628695 / (x + tail);  // 1 / sqrt(pi)
}
inline float erfcxf(float x) { return float(erfcx(x)); }
// Modified Bessel functions: all terms of the series are positive, so none cancel.
namespace cudalab {
inline double bessel_i(int order, double x) {
    if (fabs(x) > 720 || x != x) return order && x < 0 ? -fabs(x) * HUGE_VAL : fabs(x) * HUGE_VAL;
    double term = order ? 0.5 * x : 1, sum = term;
    for (int k = 1; fabs(term) > 1e-17 * fabs(sum); ++k) sum += term *= 0.25 * x * x / (double(k) * (k + order));
    return sum;
}
}  // namespace cudalab
inline double cyl_bessel_i0(double x) { return cudalab::bessel_i(0, x); }
inline double cyl_bessel_i1(double x) { return cudalab::bessel_i(1, x); }
inline float cyl_bessel_i0f(float x) { return float(cudalab::bessel_i(0, x)); }
inline float cyl_bessel_i1f(float x) { return float(cudalab::bessel_i(1, x)); }
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
CUDALAB_INLINE double fdivide(double a, double b) { return a / b; }
CUDALAB_INLINE float fdividef(float a, float b) { return a / b; }
CUDALAB_INLINE float __fdividef(float a, float b) { return a / b; }
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
void looked(const void* address, uint64_t value);  // in fibers.h or flat.h
CUDALAB_UNWATCHED inline uint64_t digest(const void* bytes, size_t count) {
    uint64_t words[2] = {};
    memcpy(words, bytes, count < 16 ? count : 16);
    return words[0] ^ words[1] * 0x9e3779b97f4a7c15ull;
}
// A load past L1, with which a thread may wait for another one: read from memory each time.
template <class T> CUDALAB_INLINE T loaded_afresh(const T* p) {
#if CUDALAB_FIBERS
    __asm__ volatile("" ::: "memory");
    past_l1(p, sizeof(T));
    const T found = *p;
    past_l1(nullptr, 0);
    looked(p, digest(&found, sizeof(T)));
    return found;
#else
    return *p;
#endif
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
