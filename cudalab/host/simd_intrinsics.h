// The SIMD functions of a 32-bit register: two 16-bit or four 8-bit integers in it (__vadd4, __vcmpgtu2, __viaddmax_s16x2).
#pragma once

namespace cudalab {

// The lanes of a word as `lane` (int8_t, uint16_t, ...), in an int.
template <class lane, class F> CUDALAB_INLINE unsigned by_lane(unsigned a, unsigned b, unsigned c, F combine) {
    constexpr int bits = 8 * sizeof(lane);
    constexpr unsigned mask = (1u << bits) - 1;
    unsigned result = 0;
    for (int at = 0; at < 32; at += bits)
        result |= (unsigned(combine(int(lane(a >> at)), int(lane(b >> at)), int(lane(c >> at)))) & mask) << at;
    return result;
}
template <class lane> CUDALAB_INLINE int saturated(int x) {
    constexpr int least = std::numeric_limits<lane>::min(), most = std::numeric_limits<lane>::max();
    return x < least ? least : x > most ? most : x;
}
template <class lane> CUDALAB_INLINE unsigned sum_of_differences(unsigned a, unsigned b) {
    unsigned sum = 0;
    by_lane<lane>(a, b, 0, [&](int x, int y, int) { return int(sum += unsigned(x < y ? y - x : x - y)); });
    return sum;
}

}  // namespace cudalab

#define CUDALAB_LANES(name, lane, expression)                                              \
    CUDALAB_INLINE unsigned name(unsigned a, unsigned b) {                                 \
        return cudalab::by_lane<lane>(a, b, 0, [](int x, int y, int) { return expression; }); \
    }
#define CUDALAB_LANES_1(name, lane, expression)                                            \
    CUDALAB_INLINE unsigned name(unsigned a) {                                             \
        return cudalab::by_lane<lane>(a, 0, 0, [](int x, int, int) { return expression; });   \
    }
#define CUDALAB_LANES_3(name, lane, expression)                                            \
    CUDALAB_INLINE unsigned name(unsigned a, unsigned b, unsigned c) {                     \
        return cudalab::by_lane<lane>(a, b, c, [](int x, int y, int z) { return expression; }); \
    }

// A comparison gives all ones where it holds (__vcmp), or 1 (__vset).
#define CUDALAB_COMPARE(name, n, lane, test)        \
    CUDALAB_LANES(__vcmp##name##n, lane, test ? -1 : 0) \
    CUDALAB_LANES(__vset##name##n, lane, test ? 1 : 0)

#define CUDALAB_SIMD(n, s, u)                                                          \
    CUDALAB_LANES_1(__vabs##n, s, x < 0 ? -x : x)                                      \
    CUDALAB_LANES_1(__vabsss##n, s, cudalab::saturated<s>(x < 0 ? -x : x))             \
    CUDALAB_LANES_1(__vneg##n, s, -x)                                                  \
    CUDALAB_LANES_1(__vnegss##n, s, cudalab::saturated<s>(-x))                         \
    CUDALAB_LANES(__vadd##n, u, x + y)                                                 \
    CUDALAB_LANES(__vaddss##n, s, cudalab::saturated<s>(x + y))                        \
    CUDALAB_LANES(__vaddus##n, u, cudalab::saturated<u>(x + y))                        \
    CUDALAB_LANES(__vsub##n, u, x - y)                                                 \
    CUDALAB_LANES(__vsubss##n, s, cudalab::saturated<s>(x - y))                        \
    CUDALAB_LANES(__vsubus##n, u, cudalab::saturated<u>(x - y))                        \
    CUDALAB_LANES(__vabsdiffs##n, s, x < y ? y - x : x - y)                            \
    CUDALAB_LANES(__vabsdiffu##n, u, x < y ? y - x : x - y)                            \
    /* a tie goes away from zero (PTX vavrg2, vavrg4) */                               \
    CUDALAB_LANES(__vavgs##n, s, (x + y + (x + y >= 0)) >> 1)                          \
    CUDALAB_LANES(__vavgu##n, u, (x + y + 1) >> 1)                                     \
    CUDALAB_LANES(__vhaddu##n, u, (x + y) >> 1)                                        \
    CUDALAB_LANES(__vmaxs##n, s, x < y ? y : x)                                        \
    CUDALAB_LANES(__vmaxu##n, u, x < y ? y : x)                                        \
    CUDALAB_LANES(__vmins##n, s, y < x ? y : x)                                        \
    CUDALAB_LANES(__vminu##n, u, y < x ? y : x)                                        \
    CUDALAB_COMPARE(eq, n, u, x == y)                                                  \
    CUDALAB_COMPARE(ne, n, u, x != y)                                                  \
    CUDALAB_COMPARE(ges, n, s, x >= y)                                                 \
    CUDALAB_COMPARE(geu, n, u, x >= y)                                                 \
    CUDALAB_COMPARE(gts, n, s, x > y)                                                  \
    CUDALAB_COMPARE(gtu, n, u, x > y)                                                  \
    CUDALAB_COMPARE(les, n, s, x <= y)                                                 \
    CUDALAB_COMPARE(leu, n, u, x <= y)                                                 \
    CUDALAB_COMPARE(lts, n, s, x < y)                                                  \
    CUDALAB_COMPARE(ltu, n, u, x < y)                                                  \
    CUDALAB_INLINE unsigned __vsads##n(unsigned a, unsigned b) { return cudalab::sum_of_differences<s>(a, b); } \
    CUDALAB_INLINE unsigned __vsadu##n(unsigned a, unsigned b) { return cudalab::sum_of_differences<u>(a, b); }
CUDALAB_SIMD(2, int16_t, uint16_t)
CUDALAB_SIMD(4, int8_t, uint8_t)
#undef CUDALAB_SIMD
#undef CUDALAB_COMPARE

// ---- the functions for dynamic programming: additions wrap around, relu is a maximum with 0 ---------------------------
#define CUDALAB_DPX(kind, lane)                                                                  \
    CUDALAB_LANES_3(__viaddmax_##kind, lane, (cudalab::dpx_max<lane>(x + y, z)))                 \
    CUDALAB_LANES_3(__viaddmin_##kind, lane, (cudalab::dpx_min<lane>(x + y, z)))                 \
    CUDALAB_LANES_3(__vimax3_##kind, lane, max(max(x, y), z))                                    \
    CUDALAB_LANES_3(__vimin3_##kind, lane, min(min(x, y), z))                                    \
    CUDALAB_INLINE unsigned __vibmax_##kind(unsigned a, unsigned b, bool* high, bool* low) {     \
        *high = lane(a >> 16) >= lane(b >> 16), *low = lane(a) >= lane(b);                       \
        return cudalab::by_lane<lane>(a, b, 0, [](int x, int y, int) { return max(x, y); });     \
    }                                                                                            \
    CUDALAB_INLINE unsigned __vibmin_##kind(unsigned a, unsigned b, bool* high, bool* low) {     \
        *high = lane(a >> 16) <= lane(b >> 16), *low = lane(a) <= lane(b);                       \
        return cudalab::by_lane<lane>(a, b, 0, [](int x, int y, int) { return min(x, y); });     \
    }
namespace cudalab {
template <class lane> CUDALAB_INLINE int dpx_max(int sum, int other) { return max(int(lane(sum)), other); }
template <class lane> CUDALAB_INLINE int dpx_min(int sum, int other) { return min(int(lane(sum)), other); }
}  // namespace cudalab
CUDALAB_DPX(s16x2, int16_t)
CUDALAB_DPX(u16x2, uint16_t)
#undef CUDALAB_DPX
CUDALAB_LANES_3(__viaddmax_s16x2_relu, int16_t, max(cudalab::dpx_max<int16_t>(x + y, z), 0))
CUDALAB_LANES_3(__viaddmin_s16x2_relu, int16_t, max(cudalab::dpx_min<int16_t>(x + y, z), 0))
CUDALAB_LANES_3(__vimax3_s16x2_relu, int16_t, max(max(max(x, y), z), 0))
CUDALAB_LANES_3(__vimin3_s16x2_relu, int16_t, max(min(min(x, y), z), 0))
CUDALAB_LANES(__vimax_s16x2_relu, int16_t, max(max(x, y), 0))
CUDALAB_LANES(__vimin_s16x2_relu, int16_t, max(min(x, y), 0))
#undef CUDALAB_LANES
#undef CUDALAB_LANES_1
#undef CUDALAB_LANES_3

#define CUDALAB_DPX_32(kind, T)                                                                             \
    CUDALAB_INLINE T __viaddmax_##kind(T a, T b, T c) { return max(T(unsigned(a) + unsigned(b)), c); }      \
    CUDALAB_INLINE T __viaddmin_##kind(T a, T b, T c) { return min(T(unsigned(a) + unsigned(b)), c); }      \
    CUDALAB_INLINE T __vimax3_##kind(T a, T b, T c) { return max(max(a, b), c); }                           \
    CUDALAB_INLINE T __vimin3_##kind(T a, T b, T c) { return min(min(a, b), c); }                           \
    CUDALAB_INLINE T __vibmax_##kind(T a, T b, bool* first) { return *first = a >= b, max(a, b); }          \
    CUDALAB_INLINE T __vibmin_##kind(T a, T b, bool* first) { return *first = a <= b, min(a, b); }
CUDALAB_DPX_32(s32, int)
CUDALAB_DPX_32(u32, unsigned)
#undef CUDALAB_DPX_32
CUDALAB_INLINE int __viaddmax_s32_relu(int a, int b, int c) { return max(__viaddmax_s32(a, b, c), 0); }
CUDALAB_INLINE int __viaddmin_s32_relu(int a, int b, int c) { return max(__viaddmin_s32(a, b, c), 0); }
CUDALAB_INLINE int __vimax3_s32_relu(int a, int b, int c) { return max(max(max(a, b), c), 0); }
CUDALAB_INLINE int __vimin3_s32_relu(int a, int b, int c) { return max(min(min(a, b), c), 0); }
CUDALAB_INLINE int __vimax_s32_relu(int a, int b) { return max(max(a, b), 0); }
CUDALAB_INLINE int __vimin_s32_relu(int a, int b) { return max(min(a, b), 0); }
