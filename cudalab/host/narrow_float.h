// A 16-bit floating point number in software: the arithmetic behind half.h, for any split into exponent and mantissa.
// Every operation rounds once, to nearest even. NaN results are 0x7fff, which is what the GPU produces.
#pragma once
#include "half_intrinsics.h"

namespace cudalab {

template <int exponent_bits, int mantissa_bits>
struct narrow_float : half_intrinsics<narrow_float<exponent_bits, mantissa_bits>> {
    static_assert(1 + exponent_bits + mantissa_bits == 16, "two bytes");
    static constexpr uint16_t infinity = ((1 << exponent_bits) - 1) << mantissa_bits;
    static constexpr uint16_t canonical_nan = 0x7fff;
    static constexpr int least_exponent = 2 - (1 << (exponent_bits - 1));  // of a normal number

    uint16_t bits;

    narrow_float() = default;  // trivial: __shared__ and __constant__ variables have no constructor to run
    template <class T, class = typename std::enable_if<std::is_arithmetic<T>::value>::type>
    narrow_float(T value) : bits(round(double(value))) {}
    operator float() const { return widen(bits); }

    static narrow_float from_bits(uint16_t bits) {
        narrow_float made;
        made.bits = bits;
        return made;
    }

    static uint16_t round(double value) {
        const uint64_t all = bits_as<uint64_t>(value), magnitude = all & ~(1ull << 63);
        const uint16_t sign = uint16_t(all >> 63 << 15);
        if (magnitude > 0x7ffull << 52) return canonical_nan;
        if (magnitude == 0x7ffull << 52) return sign | infinity;
        const int exponent = int(magnitude >> 52) - 1023;
        const int below_normal = exponent < least_exponent ? least_exponent - exponent : 0;
        const int dropped = 52 - mantissa_bits + below_normal;
        if (dropped > 53) return sign;  // less than half of the least subnormal
        const uint64_t significand = (magnitude & ((1ull << 52) - 1)) | 1ull << 52;
        const uint64_t kept = significand >> dropped, rest = significand & ((1ull << dropped) - 1);
        const uint64_t half_way = 1ull << (dropped - 1);
        const uint64_t rounded = kept + (rest > half_way || (rest == half_way && (kept & 1)));
        // `rounded` still holds the leading 1, which adds one to the exponent field; a carry does the same.
        const uint64_t field = below_normal ? 0 : uint64_t(exponent - least_exponent) << mantissa_bits;
        return sign | uint16_t(field + rounded < infinity ? field + rounded : infinity);
    }

    static float widen(uint16_t bits) {
        const uint32_t sign = uint32_t(bits >> 15) << 31, magnitude = bits & 0x7fff;
        if (exponent_bits == 8) return bits_as<float>(uint32_t(bits) << 16);  // float's own exponent: bfloat16
        const uint32_t placed = magnitude << (23 - mantissa_bits);
        if (magnitude >= infinity) return bits_as<float>(sign | 0xffu << 23 | placed);
        // Place the bits, then scale by the difference of the exponent biases; exact, and right for subnormals.
        const float scale = bits_as<float>(uint32_t(127 + 127 - ((1 << (exponent_bits - 1)) - 1)) << 23);
        return bits_as<float>(sign | bits_as<uint32_t>(bits_as<float>(placed) * scale));
    }

    // In float and then rounded: float's 24 bits are at least 2p + 2 for both formats, so + - * / and sqrt come out
    // as if rounded once (Figueroa 1995).
    friend narrow_float operator+(narrow_float a, narrow_float b) { return float(a) + float(b); }
    friend narrow_float operator-(narrow_float a, narrow_float b) { return float(a) - float(b); }
    friend narrow_float operator*(narrow_float a, narrow_float b) { return float(a) * float(b); }
    friend narrow_float operator/(narrow_float a, narrow_float b) { return float(a) / float(b); }
    friend narrow_float operator+(narrow_float a) { return a; }
    friend narrow_float operator-(narrow_float a) { return from_bits(a.bits ^ 0x8000); }
    friend narrow_float& operator+=(narrow_float& a, narrow_float b) { return a = a + b; }
    friend narrow_float& operator-=(narrow_float& a, narrow_float b) { return a = a - b; }
    friend narrow_float& operator*=(narrow_float& a, narrow_float b) { return a = a * b; }
    friend narrow_float& operator/=(narrow_float& a, narrow_float b) { return a = a / b; }
    friend narrow_float& operator++(narrow_float& a) { return a = a + narrow_float(1); }
    friend narrow_float& operator--(narrow_float& a) { return a = a - narrow_float(1); }
    friend bool operator==(narrow_float a, narrow_float b) { return float(a) == float(b); }
    friend bool operator!=(narrow_float a, narrow_float b) { return float(a) != float(b); }
    friend bool operator<(narrow_float a, narrow_float b) { return float(a) < float(b); }
    friend bool operator<=(narrow_float a, narrow_float b) { return float(a) <= float(b); }
    friend bool operator>(narrow_float a, narrow_float b) { return float(a) > float(b); }
    friend bool operator>=(narrow_float a, narrow_float b) { return float(a) >= float(b); }
};

// Two of them in one register: __half2, __nv_bfloat162.
template <class T> struct alignas(4) narrow_pair : half2_intrinsics<T, narrow_pair<T>> {
    T x, y;
    narrow_pair() = default;
    narrow_pair(T x, T y) : x(x), y(y) {}

    friend narrow_pair operator+(narrow_pair a, narrow_pair b) { return {a.x + b.x, a.y + b.y}; }
    friend narrow_pair operator-(narrow_pair a, narrow_pair b) { return {a.x - b.x, a.y - b.y}; }
    friend narrow_pair operator*(narrow_pair a, narrow_pair b) { return {a.x * b.x, a.y * b.y}; }
    friend narrow_pair operator/(narrow_pair a, narrow_pair b) { return {a.x / b.x, a.y / b.y}; }
    friend narrow_pair operator-(narrow_pair a) { return {-a.x, -a.y}; }
    friend narrow_pair& operator+=(narrow_pair& a, narrow_pair b) { return a = a + b; }
    friend narrow_pair& operator-=(narrow_pair& a, narrow_pair b) { return a = a - b; }
    friend narrow_pair& operator*=(narrow_pair& a, narrow_pair b) { return a = a * b; }
    friend narrow_pair& operator/=(narrow_pair& a, narrow_pair b) { return a = a / b; }
    friend bool operator==(narrow_pair a, narrow_pair b) { return a.x == b.x && a.y == b.y; }
    friend bool operator!=(narrow_pair a, narrow_pair b) { return a.x != b.x && a.y != b.y; }
};

}  // namespace cudalab
