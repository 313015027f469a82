// The 8-bit floating-point numbers of <cuda_fp8.h>: e4m3 (no infinity, largest 448) and e5m2 (as IEEE 754, largest 57344),
// and two or four of them together. A conversion rounds once, to nearest even. Constructors saturate: what is too large
// becomes the largest number. As in CUDA they have no arithmetic, and every conversion is explicit.
#pragma once

typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned int __nv_fp8x4_storage_t;
typedef enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE } __nv_saturation_t;
typedef enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 } __nv_fp8_interpretation_t;

// The bits of a half, as fp8's functions take and give them.
struct __half_raw {
    unsigned short x;
    __half_raw() = default;
    __half_raw(__half value) : x(value.bits) {}
    operator __half() const { return __half::from_bits(x); }
};
struct __nv_bfloat16_raw {
    unsigned short x;
    __nv_bfloat16_raw() = default;
    __nv_bfloat16_raw(__nv_bfloat16 value) : x(value.bits) {}
    operator __nv_bfloat16() const { return __nv_bfloat16::from_bits(x); }
};
struct __half2_raw {
    unsigned short x, y;
    __half2_raw() = default;
    __half2_raw(__half2 value) : x(value.x.bits), y(value.y.bits) {}
    operator __half2() const { return {__half::from_bits(x), __half::from_bits(y)}; }
};
struct __nv_bfloat162_raw {
    unsigned short x, y;
    __nv_bfloat162_raw() = default;
    __nv_bfloat162_raw(__nv_bfloat162 value) : x(value.x.bits), y(value.y.bits) {}
    operator __nv_bfloat162() const { return {__nv_bfloat16::from_bits(x), __nv_bfloat16::from_bits(y)}; }
};

namespace cudalab {

template <__nv_fp8_interpretation_t kind> struct fp8_format {
    static constexpr int mantissa_bits = kind == __NV_E4M3 ? 3 : 2, least_exponent = kind == __NV_E4M3 ? -6 : -14;
    static constexpr unsigned largest = kind == __NV_E4M3 ? 0x7e : 0x7b;
    static constexpr unsigned overflow = kind == __NV_E4M3 ? 0x7f : 0x7c;  // NaN; infinity

    static __nv_fp8_storage_t round(double value, bool saturate) {
        const unsigned sign = unsigned(bits_as<uint64_t>(value) >> 63) << 7;
        if (value != value) return __nv_fp8_storage_t(sign | 0x7f);
        const double magnitude = fabs(value);
        int exponent = magnitude > 0 && magnitude < INFINITY ? ilogb(magnitude) : least_exponent;
        if (exponent < least_exponent) exponent = least_exponent;
        unsigned found = overflow;
        if (exponent < 32 && magnitude < INFINITY) {
            const double units = nearbyint(ldexp(magnitude, mantissa_bits - exponent));  // exact before it rounds
            const unsigned field = unsigned(exponent - least_exponent) << mantissa_bits;
            found = field + unsigned(units);  // `units` holds the leading 1, and a carry goes into the exponent
            if (found > largest) found = overflow;
        }
        return __nv_fp8_storage_t(sign | (found == overflow && saturate ? largest : found));
    }
    static float widen(unsigned bits) {
        const unsigned magnitude = bits & 0x7f;
        const float sign = bits & 0x80 ? -1.0f : 1.0f;
        if (magnitude > (kind == __NV_E4M3 ? 0x7eu : 0x7cu)) return copysignf(NAN, sign);
        if (magnitude > largest) return sign * INFINITY;
        const unsigned field = magnitude >> mantissa_bits, fraction = magnitude & ((1u << mantissa_bits) - 1);
        const unsigned units = field ? fraction | 1u << mantissa_bits : fraction;
        return sign * ldexpf(float(units), (field ? int(field) - 1 : 0) + least_exponent - mantissa_bits);
    }
};

template <__nv_fp8_interpretation_t kind> struct fp8 {
    using format = fp8_format<kind>;
    __nv_fp8_storage_t __x;

    fp8() = default;  // trivial: usable in __shared__ memory
    template <class T, class = typename std::enable_if<std::is_arithmetic<T>::value>::type>
    explicit fp8(T value)
        : __x(format::round(std::is_integral<T>::value ? double(float(value)) : double(value), true)) {}
    explicit fp8(__half value) : __x(format::round(float(value), true)) {}
    explicit fp8(__nv_bfloat16 value) : __x(format::round(float(value), true)) {}

    explicit operator float() const { return format::widen(__x); }
    explicit operator double() const { return format::widen(__x); }
    explicit operator __half() const { return __half(format::widen(__x)); }
    explicit operator __nv_bfloat16() const { return __nv_bfloat16(format::widen(__x)); }
    explicit operator bool() const { return __x & 0x7f; }
    template <class T, class = typename std::enable_if<std::is_integral<T>::value && !std::is_same<T, bool>::value>::type>
    explicit operator T() const { return saturate<T>(trunc(format::widen(__x))); }
};

// Two in one word, the first in the lower byte.
template <__nv_fp8_interpretation_t kind> struct alignas(2) fp8x2 {
    using format = fp8_format<kind>;
    __nv_fp8x2_storage_t __x;

    fp8x2() = default;
    explicit fp8x2(float2 v) : fp8x2(v.x, v.y) {}
    explicit fp8x2(double2 v) : fp8x2(v.x, v.y) {}
    explicit fp8x2(__half2 v) : fp8x2(float(v.x), float(v.y)) {}
    explicit fp8x2(__nv_bfloat162 v) : fp8x2(float(v.x), float(v.y)) {}
    explicit operator float2() const { return make_float2(format::widen(__x & 255), format::widen(__x >> 8)); }
    explicit operator __half2() const { return {__half(format::widen(__x & 255)), __half(format::widen(__x >> 8))}; }
    explicit operator __nv_bfloat162() const {
        return {__nv_bfloat16(format::widen(__x & 255)), __nv_bfloat16(format::widen(__x >> 8))};
    }

private:
    fp8x2(double x, double y) : __x(__nv_fp8x2_storage_t(format::round(x, true) | format::round(y, true) << 8)) {}
};

template <__nv_fp8_interpretation_t kind> struct alignas(4) fp8x4 {
    using format = fp8_format<kind>;
    __nv_fp8x4_storage_t __x;

    fp8x4() = default;
    explicit fp8x4(float4 v) : fp8x4(v.x, v.y, v.z, v.w) {}
    explicit fp8x4(double4 v) : fp8x4(v.x, v.y, v.z, v.w) {}
    fp8x4(__half2 low, __half2 high) : fp8x4(float(low.x), float(low.y), float(high.x), float(high.y)) {}
    fp8x4(__nv_bfloat162 low, __nv_bfloat162 high) : fp8x4(float(low.x), float(low.y), float(high.x), float(high.y)) {}
    explicit operator float4() const {
        return make_float4(format::widen(__x & 255), format::widen(__x >> 8 & 255), format::widen(__x >> 16 & 255),
                           format::widen(__x >> 24));
    }

private:
    fp8x4(double x, double y, double z, double w)
        : __x(format::round(x, true) | unsigned(format::round(y, true)) << 8 | unsigned(format::round(z, true)) << 16 |
              unsigned(format::round(w, true)) << 24) {}
};

}  // namespace cudalab

using __nv_fp8_e4m3 = cudalab::fp8<__NV_E4M3>;
using __nv_fp8_e5m2 = cudalab::fp8<__NV_E5M2>;
using __nv_fp8x2_e4m3 = cudalab::fp8x2<__NV_E4M3>;
using __nv_fp8x2_e5m2 = cudalab::fp8x2<__NV_E5M2>;
using __nv_fp8x4_e4m3 = cudalab::fp8x4<__NV_E4M3>;
using __nv_fp8x4_e5m2 = cudalab::fp8x4<__NV_E5M2>;

inline __nv_fp8_storage_t __nv_cvt_double_to_fp8(double x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
    return kind == __NV_E4M3 ? cudalab::fp8_format<__NV_E4M3>::round(x, saturate == __NV_SATFINITE)
                             : cudalab::fp8_format<__NV_E5M2>::round(x, saturate == __NV_SATFINITE);
}
inline __nv_fp8x2_storage_t __nv_cvt_double2_to_fp8x2(double2 v, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
    return __nv_fp8x2_storage_t(__nv_cvt_double_to_fp8(v.x, saturate, kind) | __nv_cvt_double_to_fp8(v.y, saturate, kind) << 8);
}
inline __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t x, __nv_fp8_interpretation_t kind) {
    return __half(kind == __NV_E4M3 ? cudalab::fp8_format<__NV_E4M3>::widen(x) : cudalab::fp8_format<__NV_E5M2>::widen(x));
}
inline __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t v, __nv_fp8_interpretation_t kind) {
    const __half low = __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t(v & 255), kind);
    return __half2(low, __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t(v >> 8), kind));
}
inline __nv_fp8_storage_t __nv_cvt_float_to_fp8(float x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
    return __nv_cvt_double_to_fp8(x, saturate, kind);
}
inline __nv_fp8x2_storage_t __nv_cvt_float2_to_fp8x2(float2 v, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
    return __nv_cvt_double2_to_fp8x2(make_double2(v.x, v.y), saturate, kind);
}
#define CUDALAB_RAW_TO_FP8(from, Narrow, Raw, Raw2)                                                                    \
    inline __nv_fp8_storage_t __nv_cvt_##from##raw_to_fp8(Raw v, __nv_saturation_t saturate,                           \
                                                          __nv_fp8_interpretation_t kind) {                            \
        return __nv_cvt_double_to_fp8(float(Narrow::from_bits(v.x)), saturate, kind);                                  \
    }                                                                                                                  \
    inline __nv_fp8x2_storage_t __nv_cvt_##from##raw2_to_fp8x2(Raw2 v, __nv_saturation_t saturate,                     \
                                                               __nv_fp8_interpretation_t kind) {                       \
        return __nv_cvt_double2_to_fp8x2(                                                                              \
            make_double2(float(Narrow::from_bits(v.x)), float(Narrow::from_bits(v.y))), saturate, kind);               \
    }
CUDALAB_RAW_TO_FP8(half, __half, __half_raw, __half2_raw)
CUDALAB_RAW_TO_FP8(bfloat16, __nv_bfloat16, __nv_bfloat16_raw, __nv_bfloat162_raw)
#undef CUDALAB_RAW_TO_FP8
