// Integer functions: bits, high halves of products, bytes in a register.
#pragma once

CUDALAB_INLINE int __popc(unsigned x) { return __builtin_popcount(x); }
CUDALAB_INLINE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
CUDALAB_INLINE int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
CUDALAB_INLINE int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
CUDALAB_INLINE int __ffs(int x) { return __builtin_ffs(x); }
CUDALAB_INLINE int __ffsll(long long x) { return __builtin_ffsll(x); }
CUDALAB_INLINE int __mul24(int a, int b) {
    return int(unsigned(int(unsigned(a) << 8) >> 8) * unsigned(int(unsigned(b) << 8) >> 8));
}
CUDALAB_INLINE int __mulhi(int a, int b) { return int((long long)a * b >> 32); }
CUDALAB_INLINE unsigned __umulhi(unsigned a, unsigned b) { return unsigned((unsigned long long)a * b >> 32); }
CUDALAB_INLINE unsigned __brev(unsigned x) {
    unsigned reversed = 0;
    for (int bit = 0; bit < 32; ++bit) reversed |= (x >> bit & 1u) << (31 - bit);
    return reversed;
}
CUDALAB_INLINE unsigned long long __brevll(unsigned long long x) {
    return (unsigned long long)__brev(unsigned(x)) << 32 | __brev(unsigned(x >> 32));
}
CUDALAB_INLINE unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffff) * (b & 0xffffff); }
CUDALAB_INLINE long long __mul64hi(long long a, long long b) { return (long long)((__int128)a * b >> 64); }
CUDALAB_INLINE unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
CUDALAB_INLINE unsigned __sad(int a, int b, unsigned c) { return c + (a < b ? unsigned(b) - a : unsigned(a) - b); }
CUDALAB_INLINE unsigned __usad(unsigned a, unsigned b, unsigned c) { return c + (a < b ? b - a : a - b); }
CUDALAB_INLINE int __hadd(int a, int b) { return int(((long long)a + b) >> 1); }
CUDALAB_INLINE int __rhadd(int a, int b) { return int(((long long)a + b + 1) >> 1); }
CUDALAB_INLINE unsigned __uhadd(unsigned a, unsigned b) { return unsigned(((unsigned long long)a + b) >> 1); }
CUDALAB_INLINE unsigned __urhadd(unsigned a, unsigned b) { return unsigned(((unsigned long long)a + b + 1) >> 1); }

// The place of the |offset|-th set bit from `base` on, upwards, or downwards for a negative offset; ~0 for none. Offset
// 0: `base` itself, if it is set.
CUDALAB_INLINE unsigned __fns(unsigned mask, unsigned base, int offset) {
    const int step = offset < 0 ? -1 : 1;
    int left = offset < 0 ? -offset : offset ? offset : 1;
    for (int at = int(base); at >= 0 && at < 32; at += step) {
        if ((mask >> at & 1) && --left == 0) return unsigned(at);
        if (offset == 0) break;
    }
    return ~0u;
}

// The 64 bits high:low, shifted; l gives the upper half, r the lower one. c: shifts by more than 32 count as 32.
CUDALAB_INLINE unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
    return unsigned(((unsigned long long)high << 32 | low) << (by & 31) >> 32);
}
CUDALAB_INLINE unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
    return unsigned(((unsigned long long)high << 32 | low) >> (by & 31));
}
CUDALAB_INLINE unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned by) {
    return by >= 32 ? low : __funnelshift_l(low, high, by);
}
CUDALAB_INLINE unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned by) {
    return by >= 32 ? high : __funnelshift_r(low, high, by);
}

// Each nibble of `selector` names one of the eight bytes of b:a; its top bit asks for that byte's sign instead.
CUDALAB_INLINE unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
    const unsigned long long bytes = (unsigned long long)b << 32 | a;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) {
        const unsigned nibble = selector >> 4 * i & 15;
        const unsigned byte = unsigned(bytes >> 8 * (nibble & 7)) & 255;
        result |= (nibble & 8 ? (byte & 128 ? 255u : 0u) : byte) << 8 * i;
    }
    return result;
}

// c plus the products of the four bytes of a and b.
CUDALAB_INLINE int __dp4a(int a, int b, int c) {
    for (int i = 0; i < 4; ++i) c = int(unsigned(c) + int8_t(a >> 8 * i) * int8_t(b >> 8 * i));
    return c;
}
CUDALAB_INLINE unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
    for (int i = 0; i < 4; ++i) c += (a >> 8 * i & 255) * (b >> 8 * i & 255);
    return c;
}
CUDALAB_INLINE int __dp4a(char4 a, char4 b, int c) {
    return int(unsigned(c) + unsigned(a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w));
}
CUDALAB_INLINE unsigned __dp4a(uchar4 a, uchar4 b, unsigned c) { return c + a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }

// c plus the products of the two halves of a and the two lower (lo) or upper (hi) bytes of b.
#define CUDALAB_DP2A(name, shift)                                                                                  \
    CUDALAB_INLINE int name(int a, int b, int c) {                                                                 \
        return int(unsigned(c) + unsigned(int16_t(a) * int8_t(b >> shift)) +                                       \
                   unsigned(int16_t(a >> 16) * int8_t(b >> (shift + 8))));                                         \
    }                                                                                                              \
    CUDALAB_INLINE unsigned name(unsigned a, unsigned b, unsigned c) {                                             \
        return c + (a & 0xffff) * (b >> shift & 255) + (a >> 16) * (b >> (shift + 8) & 255);                       \
    }
CUDALAB_DP2A(__dp2a_lo, 0)
CUDALAB_DP2A(__dp2a_hi, 16)
#undef CUDALAB_DP2A
CUDALAB_INLINE int __dp2a_lo(short2 a, char4 b, int c) { return int(unsigned(c) + unsigned(a.x * b.x) + unsigned(a.y * b.y)); }
CUDALAB_INLINE int __dp2a_hi(short2 a, char4 b, int c) { return int(unsigned(c) + unsigned(a.x * b.z) + unsigned(a.y * b.w)); }
CUDALAB_INLINE unsigned __dp2a_lo(ushort2 a, uchar4 b, unsigned c) { return c + unsigned(a.x) * b.x + unsigned(a.y) * b.y; }
CUDALAB_INLINE unsigned __dp2a_hi(ushort2 a, uchar4 b, unsigned c) { return c + unsigned(a.x) * b.z + unsigned(a.y) * b.w; }
