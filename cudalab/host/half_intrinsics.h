// __hadd, __hfma2, hexp, ...: the functions that CUDA has under one name for __half and __nv_bfloat16.
//
// They are friends defined inside a base class. Lookup by the argument's type finds them for both formats, and a plain
// float beside a half converts as in CUDA, which a function template would not allow.
#pragma once

namespace cudalab {

// a + b "rounded to odd": where the sum is inexact its last bit is set. A second rounding, to fewer bits, then never
// meets a false tie (Boldo and Melquiond 2008), so a fused multiply-add rounds once.
inline double add_round_to_odd(double a, double b) {
    double sum = a + b, from_b = sum - a;
    double lost = (a - (sum - from_b)) + (b - from_b);  // Knuth's two-sum: a + b == sum + lost, exactly
    int64_t bits = bits_as<int64_t>(sum);
    if (std::isfinite(sum) && lost != 0.0 && !(bits & 1)) bits += (lost > 0.0) == (sum > 0.0) ? 1 : -1;
    return bits_as<double>(bits);
}

template <class T> struct half_intrinsics {
    friend T __hadd(T a, T b) { return a + b; }
    friend T __hsub(T a, T b) { return a - b; }
    friend T __hmul(T a, T b) { return a * b; }
    friend T __hdiv(T a, T b) { return a / b; }
    friend T __hadd_rn(T a, T b) { return a + b; }
    friend T __hsub_rn(T a, T b) { return a - b; }
    friend T __hmul_rn(T a, T b) { return a * b; }
    friend T __hadd_sat(T a, T b) { return __saturatef(float(a + b)); }
    friend T __hsub_sat(T a, T b) { return __saturatef(float(a - b)); }
    friend T __hfma_sat(T a, T b, T c) { return __saturatef(float(__hfma(a, b, c))); }
    friend T __hmul_sat(T a, T b) { return __saturatef(float(a * b)); }
    // The product of two narrow numbers is exact in double.
    friend T __hfma(T a, T b, T c) { return add_round_to_odd(double(float(a)) * double(float(b)), double(float(c))); }
    friend T __hfma_relu(T a, T b, T c) { return __hmax_nan(__hfma(a, b, c), T(0)); }
    friend T __hneg(T a) { return -a; }
    friend T __habs(T a) { return T::from_bits(a.bits & 0x7fff); }

    // A number wins over NaN. C's fmax is not enough: there a signalling NaN wins.
    friend T __hmax(T a, T b) { return a != a ? b : b != b ? a : T(fmaxf(float(a), float(b))); }
    friend T __hmin(T a, T b) { return a != a ? b : b != b ? a : T(fminf(float(a), float(b))); }
    friend T __hmax_nan(T a, T b) { return a != a || b != b ? T(NAN) : __hmax(a, b); }
    friend T __hmin_nan(T a, T b) { return a != a || b != b ? T(NAN) : __hmin(a, b); }

    friend bool __heq(T a, T b) { return a == b; }
    friend bool __hne(T a, T b) { return a == a && b == b && a != b; }  // CUDA: false for NaN, unlike operator!=
    friend bool __hlt(T a, T b) { return a < b; }
    friend bool __hle(T a, T b) { return a <= b; }
    friend bool __hgt(T a, T b) { return a > b; }
    friend bool __hge(T a, T b) { return a >= b; }
    // True also where either is NaN.
    friend bool __hequ(T a, T b) { return !(a < b) && !(a > b); }
    friend bool __hneu(T a, T b) { return a != b; }
    friend bool __hltu(T a, T b) { return !(a >= b); }
    friend bool __hleu(T a, T b) { return !(a > b); }
    friend bool __hgtu(T a, T b) { return !(a <= b); }
    friend bool __hgeu(T a, T b) { return !(a < b); }
    friend bool __hisnan(T a) { return a != a; }
    friend int __hisinf(T a) { return (a.bits & 0x7fff) != T::infinity ? 0 : a.bits >> 15 ? -1 : 1; }

    friend T hexp(T a) { return exp(double(float(a))); }
    friend T hexp2(T a) { return exp2(double(float(a))); }
    friend T hexp10(T a) { return pow(10.0, double(float(a))); }
    friend T hlog(T a) { return log(double(float(a))); }
    friend T hlog2(T a) { return log2(double(float(a))); }
    friend T hlog10(T a) { return log10(double(float(a))); }
    friend T hsqrt(T a) { return sqrt(double(float(a))); }
    friend T hrsqrt(T a) { return 1.0 / sqrt(double(float(a))); }
    friend T hrcp(T a) { return 1.0 / double(float(a)); }
    friend T hsin(T a) { return sin(double(float(a))); }
    friend T hcos(T a) { return cos(double(float(a))); }
    friend T htanh(T a) { return tanh(double(float(a))); }
    friend T htanh_approx(T a) { return htanh(a); }
    friend T hfloor(T a) { return floorf(float(a)); }
    friend T hceil(T a) { return ceilf(float(a)); }
    friend T htrunc(T a) { return truncf(float(a)); }
    friend T hrint(T a) { return rintf(float(a)); }
};

// P holds two T, x (the low half of the register) and y.
template <class T, class P> struct half2_intrinsics {
    friend P __hadd2(P a, P b) { return a + b; }
    friend P __hsub2(P a, P b) { return a - b; }
    friend P __hmul2(P a, P b) { return a * b; }
    friend P __h2div(P a, P b) { return a / b; }
    friend P __hfma2(P a, P b, P c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; }
    friend P __hfma2_relu(P a, P b, P c) { return {__hfma_relu(a.x, b.x, c.x), __hfma_relu(a.y, b.y, c.y)}; }
    friend P __hneg2(P a) { return -a; }
    friend P __habs2(P a) { return {__habs(a.x), __habs(a.y)}; }
    friend P __hmax2(P a, P b) { return {__hmax(a.x, b.x), __hmax(a.y, b.y)}; }
    friend P __hmin2(P a, P b) { return {__hmin(a.x, b.x), __hmin(a.y, b.y)}; }
    friend P __hadd2_sat(P a, P b) { return {__hadd_sat(a.x, b.x), __hadd_sat(a.y, b.y)}; }
    friend P __hsub2_sat(P a, P b) { return {__hsub_sat(a.x, b.x), __hsub_sat(a.y, b.y)}; }
    friend P __hmul2_sat(P a, P b) { return {__hmul_sat(a.x, b.x), __hmul_sat(a.y, b.y)}; }
    friend P __hfma2_sat(P a, P b, P c) { return {__hfma_sat(a.x, b.x, c.x), __hfma_sat(a.y, b.y, c.y)}; }
    friend P __hmax2_nan(P a, P b) { return {__hmax_nan(a.x, b.x), __hmax_nan(a.y, b.y)}; }
    friend P __hmin2_nan(P a, P b) { return {__hmin_nan(a.x, b.x), __hmin_nan(a.y, b.y)}; }
    friend P __hadd2_rn(P a, P b) { return a + b; }
    friend P __hsub2_rn(P a, P b) { return a - b; }
    friend P __hmul2_rn(P a, P b) { return a * b; }
    friend P __hcmadd(P a, P b, P c) {  // complex: a * b + c
        return {__hfma(-a.y, b.y, __hfma(a.x, b.x, c.x)), __hfma(a.y, b.x, __hfma(a.x, b.y, c.y))};
    }
    friend P __hisnan2(P a) { return {T(__hisnan(a.x)), T(__hisnan(a.y))}; }
#define CUDALAB_COMPARE(which)                                                                              \
    friend P __h##which##2(P a, P b) { return {T(__h##which(a.x, b.x)), T(__h##which(a.y, b.y))}; }          \
    friend bool __hb##which##2(P a, P b) { return __h##which(a.x, b.x) && __h##which(a.y, b.y); }            \
    friend unsigned __h##which##2_mask(P a, P b) {                                                          \
        return (__h##which(a.x, b.x) ? 0xffffu : 0u) | (__h##which(a.y, b.y) ? 0xffff0000u : 0u);            \
    }
    CUDALAB_COMPARE(eq) CUDALAB_COMPARE(ne) CUDALAB_COMPARE(lt) CUDALAB_COMPARE(le) CUDALAB_COMPARE(gt) CUDALAB_COMPARE(ge)
    CUDALAB_COMPARE(equ) CUDALAB_COMPARE(neu) CUDALAB_COMPARE(ltu) CUDALAB_COMPARE(leu) CUDALAB_COMPARE(gtu)
    CUDALAB_COMPARE(geu)
#undef CUDALAB_COMPARE

    friend P h2exp(P a) { return {hexp(a.x), hexp(a.y)}; }
    friend P h2exp2(P a) { return {hexp2(a.x), hexp2(a.y)}; }
    friend P h2exp10(P a) { return {hexp10(a.x), hexp10(a.y)}; }
    friend P h2log10(P a) { return {hlog10(a.x), hlog10(a.y)}; }
    friend P h2log2(P a) { return {hlog2(a.x), hlog2(a.y)}; }
    friend P h2sin(P a) { return {hsin(a.x), hsin(a.y)}; }
    friend P h2cos(P a) { return {hcos(a.x), hcos(a.y)}; }
    friend P h2floor(P a) { return {hfloor(a.x), hfloor(a.y)}; }
    friend P h2ceil(P a) { return {hceil(a.x), hceil(a.y)}; }
    friend P h2trunc(P a) { return {htrunc(a.x), htrunc(a.y)}; }
    friend P h2rint(P a) { return {hrint(a.x), hrint(a.y)}; }
    friend P h2log(P a) { return {hlog(a.x), hlog(a.y)}; }
    friend P h2sqrt(P a) { return {hsqrt(a.x), hsqrt(a.y)}; }
    friend P h2rsqrt(P a) { return {hrsqrt(a.x), hrsqrt(a.y)}; }
    friend P h2rcp(P a) { return {hrcp(a.x), hrcp(a.y)}; }
    friend P h2tanh_approx(P a) { return h2tanh(a); }
    friend P h2tanh(P a) { return {htanh(a.x), htanh(a.y)}; }

    friend float __low2float(P a) { return float(a.x); }
    friend float __high2float(P a) { return float(a.y); }
    friend P __lowhigh2highlow(P a) { return {a.y, a.x}; }
};

}  // namespace cudalab
