// cuRAND's device API: Philox4x32-10 and XORWOW, with the distributions that kernels draw from them.
//
// The generators give cuRAND's own bits. Philox is that of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy
// as 1, 2, 3" (SC 2011). cuRAND's documentation gives the counter: `offset / 4` in the lower 64 bits, `subsequence` in the
// upper ones, the seed is the key. Uniform numbers are bits times 2^-32 plus half of that, in (0, 1]; normal ones are
// Box-Muller transforms. Their logarithms and sines are the C library's, so the last digits may differ from a GPU's.
#pragma once

#define CURAND_2POW32_INV 2.3283064e-10f
#define CURAND_2POW32_INV_DOUBLE 2.3283064365386963e-10
#define CURAND_2POW53_INV_DOUBLE 1.1102230246251565e-16
#define CURAND_2POW32_INV_2PI (2.3283064e-10f * 6.2831855f)
#define CURAND_2PI 6.2831855f

struct curandStatePhilox4_32_10 {
    uint4 ctr, output;
    uint2 key;
    unsigned int STATE;
    int boxmuller_flag, boxmuller_flag_double;
    float boxmuller_extra;
    double boxmuller_extra_double;
};
typedef struct curandStatePhilox4_32_10 curandStatePhilox4_32_10_t;

namespace cudalab {

inline uint4 philox_round(uint4 c, uint2 key) {
    const unsigned long long a = 0xD2511F53ull * c.x, b = 0xCD9E8D57ull * c.z;
    return {unsigned(b >> 32) ^ c.y ^ key.x, unsigned(b), unsigned(a >> 32) ^ c.w ^ key.y, unsigned(a)};
}
inline uint4 philox(uint4 c, uint2 key) {
    for (int round = 0; round < 9; ++round) {
        c = philox_round(c, key);
        key.x += 0x9E3779B9u, key.y += 0xBB67AE85u;
    }
    return philox_round(c, key);
}
// Adds to the 128-bit counter: `low` to its 64 lower bits, with a carry, and `high` to the upper ones.
inline void philox_advance(curandStatePhilox4_32_10_t* s, unsigned long long low, unsigned long long high) {
    unsigned long long lower = (unsigned long long)s->ctr.y << 32 | s->ctr.x, upper = (unsigned long long)s->ctr.w << 32 | s->ctr.z;
    lower += low;
    upper += high + (lower < low);
    s->ctr = {unsigned(lower), unsigned(lower >> 32), unsigned(upper), unsigned(upper >> 32)};
}

}  // namespace cudalab

inline void skipahead(unsigned long long n, curandStatePhilox4_32_10_t* s) {
    s->STATE += unsigned(n & 3);
    n /= 4;
    if (s->STATE > 3) n += 1, s->STATE -= 4;
    cudalab::philox_advance(s, n, 0);
    s->output = cudalab::philox(s->ctr, s->key);
}
inline void skipahead_sequence(unsigned long long n, curandStatePhilox4_32_10_t* s) {
    cudalab::philox_advance(s, 0, n);
    s->output = cudalab::philox(s->ctr, s->key);
}
inline void curand_init(unsigned long long seed, unsigned long long subsequence, unsigned long long offset,
                        curandStatePhilox4_32_10_t* s) {
    *s = {};
    s->key = {unsigned(seed), unsigned(seed >> 32)};
    skipahead_sequence(subsequence, s);
    skipahead(offset, s);
}
inline unsigned int curand(curandStatePhilox4_32_10_t* s) {
    const uint4 now = s->output;
    const unsigned found = s->STATE == 0 ? now.x : s->STATE == 1 ? now.y : s->STATE == 2 ? now.z : now.w;
    if (++s->STATE == 4) {
        cudalab::philox_advance(s, 1, 0);
        s->output = cudalab::philox(s->ctr, s->key);
        s->STATE = 0;
    }
    return found;
}
// The next four numbers, from the place at which the state is.
inline uint4 curand4(curandStatePhilox4_32_10_t* s) {
    const uint4 old = s->output;
    cudalab::philox_advance(s, 1, 0);
    const uint4 next = s->output = cudalab::philox(s->ctr, s->key);
    switch (s->STATE) {
        case 0: return old;
        case 1: return {old.y, old.z, old.w, next.x};
        case 2: return {old.z, old.w, next.x, next.y};
        default: return {old.w, next.x, next.y, next.z};
    }
}

// ---- XORWOW: Marsaglia, "Xorshift RNGs" (2003) --------------------------------------------------------------------------
struct curandStateXORWOW {
    unsigned int d, v[5];
    int boxmuller_flag, boxmuller_flag_double;
    float boxmuller_extra;
    double boxmuller_extra_double;
};
typedef struct curandStateXORWOW curandStateXORWOW_t;
typedef struct curandStateXORWOW curandState_t;
typedef struct curandStateXORWOW curandState;

inline unsigned int curand(curandStateXORWOW_t* s) {
    const unsigned t = s->v[0] ^ s->v[0] >> 2;
    s->v[0] = s->v[1], s->v[1] = s->v[2], s->v[2] = s->v[3], s->v[3] = s->v[4];
    s->v[4] = s->v[4] ^ s->v[4] << 4 ^ t ^ t << 1;
    s->d += 362437;
    return s->v[4] + s->d;
}

namespace cudalab {

// The 160 bits of `v` under a linear map over GF(2), which is given by what it makes of each bit.
struct xorwow_matrix {
    unsigned column[160][5];

    void apply(unsigned* v) const {
        unsigned result[5] = {};
        for (int bit = 0; bit < 160; ++bit)
            if (v[bit / 32] >> bit % 32 & 1)
                for (int i = 0; i < 5; ++i) result[i] ^= column[bit][i];
        memcpy(v, result, sizeof result);
    }
    void square() {
        const xorwow_matrix old = *this;
        for (auto& one : column) old.apply(one);
    }
    static xorwow_matrix step() {
        xorwow_matrix made = {};
        for (int bit = 0; bit < 160; ++bit) {
            curandStateXORWOW_t s = {};
            s.v[bit / 32] = 1u << bit % 32;
            curand(&s);
            memcpy(made.column[bit], s.v, sizeof s.v);
        }
        return made;
    }
};
// Powers of the step: 2^i steps for i up to 63, and 2^(67 + i) steps for subsequences, of which each is 2^67 long.
struct xorwow_jumps {
    xorwow_matrix power[131];
    xorwow_jumps() {
        power[0] = xorwow_matrix::step();
        for (int i = 1; i < 131; ++i) (power[i] = power[i - 1]).square();
    }
    static void jump(unsigned* v, unsigned long long n, int first) {
        static const xorwow_jumps jumps;
        for (; n; n >>= 1, ++first)
            if (n & 1) jumps.power[first].apply(v);
    }
};

}  // namespace cudalab

inline void skipahead(unsigned long long n, curandStateXORWOW_t* s) {
    cudalab::xorwow_jumps::jump(s->v, n, 0);
    s->d += 362437 * unsigned(n);
}
inline void skipahead_sequence(unsigned long long n, curandStateXORWOW_t* s) { cudalab::xorwow_jumps::jump(s->v, n, 67); }
inline void curand_init(unsigned long long seed, unsigned long long subsequence, unsigned long long offset,
                        curandStateXORWOW_t* s) {
    *s = {};
    const unsigned low = unsigned(seed) ^ 0xaad26b49u, high = unsigned(seed >> 32) ^ 0xf7dcefddu;
    const unsigned t0 = 1099087573u * low, t1 = 2591861531u * high;
    s->d = 6615241u + t1 + t0;
    s->v[0] = 123456789u + t0, s->v[1] = 362436069u ^ t0, s->v[2] = 521288629u + t1, s->v[3] = 88675123u ^ t1;
    s->v[4] = 5783321u + t0;
    skipahead_sequence(subsequence, s);
    skipahead(offset, s);
}

// ---- distributions ------------------------------------------------------------------------------------------------------
namespace cudalab {

inline float uniform(unsigned x) { return x * CURAND_2POW32_INV + (CURAND_2POW32_INV / 2.0f); }
inline double uniform_double(unsigned x, unsigned y) {
    const unsigned long long z = (unsigned long long)x ^ ((unsigned long long)y << (53 - 32));
    return double(z) * CURAND_2POW53_INV_DOUBLE + (CURAND_2POW53_INV_DOUBLE / 2.0);
}
inline float2 box_muller(unsigned x, unsigned y) {
    const float u = x * CURAND_2POW32_INV + (CURAND_2POW32_INV / 2.0f);
    const float v = y * CURAND_2POW32_INV_2PI + (CURAND_2POW32_INV_2PI / 2.0f);
    const float s = sqrtf(-2.0f * logf(u));
    return {sinf(v) * s, cosf(v) * s};
}
inline double2 box_muller_double(unsigned x0, unsigned x1, unsigned y0, unsigned y1) {
    const double u = uniform_double(x0, x1);
    const unsigned long long zy = (unsigned long long)y0 ^ ((unsigned long long)y1 << (53 - 32));
    const double v = double(zy) * (CURAND_2POW53_INV_DOUBLE * 2.0) + CURAND_2POW53_INV_DOUBLE;
    const double s = sqrt(-2.0 * log(u));
    return {sin(v * M_PI) * s, cos(v * M_PI) * s};
}

}  // namespace cudalab

template <class State> inline float curand_uniform(State* s) { return cudalab::uniform(curand(s)); }
inline float4 curand_uniform4(curandStatePhilox4_32_10_t* s) {
    const uint4 x = curand4(s);
    return {cudalab::uniform(x.x), cudalab::uniform(x.y), cudalab::uniform(x.z), cudalab::uniform(x.w)};
}
template <class State> inline double curand_uniform_double(State* s) {
    const unsigned x = curand(s);
    return cudalab::uniform_double(x, curand(s));
}
// Philox takes four numbers for one double, and gives the first two's.
inline double curand_uniform_double(curandStatePhilox4_32_10_t* s) {
    const uint4 x = curand4(s);
    return cudalab::uniform_double(x.x, x.y);
}
inline double2 curand_uniform2_double(curandStatePhilox4_32_10_t* s) {
    const uint4 x = curand4(s);
    return {cudalab::uniform_double(x.x, x.y), cudalab::uniform_double(x.z, x.w)};
}
template <class State> inline float2 curand_normal2(State* s) {
    const unsigned x = curand(s);
    return cudalab::box_muller(x, curand(s));
}
// The second number of a pair is kept for the next call.
template <class State> inline float curand_normal(State* s) {
    if (s->boxmuller_flag) return s->boxmuller_flag = 0, s->boxmuller_extra;
    const float2 v = curand_normal2(s);
    s->boxmuller_flag = 1, s->boxmuller_extra = v.y;
    return v.x;
}
inline float4 curand_normal4(curandStatePhilox4_32_10_t* s) {
    const uint4 x = curand4(s);
    const float2 a = cudalab::box_muller(x.x, x.y), b = cudalab::box_muller(x.z, x.w);
    return {a.x, a.y, b.x, b.y};
}
template <class State> inline double2 curand_normal2_double(State* s) {
    const unsigned x0 = curand(s), x1 = curand(s), y0 = curand(s);
    return cudalab::box_muller_double(x0, x1, y0, curand(s));
}
inline double2 curand_normal2_double(curandStatePhilox4_32_10_t* s) {
    const uint4 x = curand4(s);
    return cudalab::box_muller_double(x.x, x.y, x.z, x.w);
}
template <class State> inline double curand_normal_double(State* s) {
    if (s->boxmuller_flag_double) return s->boxmuller_flag_double = 0, s->boxmuller_extra_double;
    const double2 v = curand_normal2_double(s);
    s->boxmuller_flag_double = 1, s->boxmuller_extra_double = v.y;
    return v.x;
}
template <class State> inline float curand_log_normal(State* s, float mean, float stddev) {
    return expf(mean + stddev * curand_normal(s));
}
template <class State> inline float2 curand_log_normal2(State* s, float mean, float stddev) {
    const float2 v = curand_normal2(s);
    return {expf(mean + stddev * v.x), expf(mean + stddev * v.y)};
}
inline float4 curand_log_normal4(curandStatePhilox4_32_10_t* s, float mean, float stddev) {
    const float4 v = curand_normal4(s);
    return {expf(mean + stddev * v.x), expf(mean + stddev * v.y), expf(mean + stddev * v.z), expf(mean + stddev * v.w)};
}
template <class State> inline double curand_log_normal_double(State* s, double mean, double stddev) {
    return exp(mean + stddev * curand_normal_double(s));
}
