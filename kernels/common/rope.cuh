// Rotary position embedding: each pair (a, b) of a head is turned by the angle of its token and its place in the head,
//     (a, b) -> (a cos - b sin, a sin + b cos)
//
// x and y are (tokens, heads, 2 half), cos and sin (tokens, half). Which two elements are a pair is the layout's matter:
// `Halves` pairs element i with half + i, `Interleaved` 2 i with 2 i + 1.
//
// Memory bounds it: x is read and y is written once. The tables are the same for all heads of a token, so a thread reads
// its part of them once and turns the same pairs of HEADS heads at a time, whose loads are all issued before the first
// value is used. A block has threads for one token or more: threadIdx.z is the token, .y the head, .x the place in it.
// So no thread divides.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include "keep.cuh"
#include "pack.cuh"

// `n` pairs of a head in registers. The first of them is pair `at`.
template <int n> struct Halves {
    static constexpr int most = WIDE;  // pairs that a thread takes at once: 16 bytes of each half
    PackOf<n> first, second;

    __device__ __forceinline__ void load(const scalar_t* head, int at, int half) {
        first = *reinterpret_cast<const PackOf<n>*>(kept(head + at));
        second = *reinterpret_cast<const PackOf<n>*>(kept(head + half + at));
    }
    __device__ __forceinline__ void store(scalar_t* head, int at, int half) const {
        *reinterpret_cast<PackOf<n>*>(head + at) = first;
        *reinterpret_cast<PackOf<n>*>(head + half + at) = second;
    }
    __device__ __forceinline__ scalar_t& a(int k) { return first.v[k]; }
    __device__ __forceinline__ scalar_t& b(int k) { return second.v[k]; }
};

template <int n> struct Interleaved {
    static constexpr int most = WIDE / 2;  // 16 bytes
    // One pair may start off the boundary of two elements, where a load of both would fault.
    static constexpr int width = n == 1 ? 1 : 2 * n;
    PackOf<width> packs[2 * n / width];

    __device__ __forceinline__ void load(const scalar_t* head, int at, int half) {
        const PackOf<width>* from = reinterpret_cast<const PackOf<width>*>(kept(head + 2 * (long long)at));
#pragma unroll
        for (int p = 0; p < 2 * n / width; ++p) packs[p] = from[p];
    }
    __device__ __forceinline__ void store(scalar_t* head, int at, int half) const {
        PackOf<width>* to = reinterpret_cast<PackOf<width>*>(head + 2 * (long long)at);
#pragma unroll
        for (int p = 0; p < 2 * n / width; ++p) to[p] = packs[p];
    }
    __device__ __forceinline__ scalar_t& a(int k) { return packs[2 * k / width].v[2 * k % width]; }
    __device__ __forceinline__ scalar_t& b(int k) { return packs[(2 * k + 1) / width].v[(2 * k + 1) % width]; }
};

// Of 16 bits the products are exact in float32.
template <class Pairs, int n>
__device__ __forceinline__ void turn(Pairs& pairs, const PackOf<n>& cos, const PackOf<n>& sin) {
#pragma unroll
    for (int k = 0; k < n; ++k) {
        const float a = float(pairs.a(k)), b = float(pairs.b(k)), c = float(cos.v[k]), s = float(sin.v[k]);
        pairs.a(k) = scalar_t(fmaf(a, c, -(b * s)));
        pairs.b(k) = scalar_t(fmaf(b, c, a * s));
    }
}

// One pair a thread, a block for each token.
template <template <int> class Layout>
__device__ __forceinline__ void rope_pairs(const scalar_t* x, const scalar_t* cos, const scalar_t* sin, scalar_t* y,
                                           int heads, int half) {
    const long long token = blockIdx.x, pairs = (long long)heads * half;
    for (long long j = threadIdx.x; j < pairs; j += blockDim.x) {
        const int at = j % half;
        const long long head = (token * heads + j / half) * 2 * half, angle = token * half + at;
        const PackOf<1> c{cos[angle]}, s{sin[angle]};
        Layout<1> pair;
        pair.load(x + head, at, half);
        turn(pair, c, s);
        pair.store(y + head, at, half);
    }
}

// `N` heads, `step` heads apart, from the one at `x`.
template <int N, class Pairs, int n>
__device__ __forceinline__ void turn_heads(const scalar_t* x, scalar_t* y, long long step, int at, int half,
                                           const PackOf<n>& cos, const PackOf<n>& sin) {
    Pairs pairs[N];
#pragma unroll
    for (int p = 0; p < N; ++p) pairs[p].load(x + p * step, at, half);
#pragma unroll
    for (int p = 0; p < N; ++p) {
        turn(pairs[p], cos, sin);
        pairs[p].store(y + p * step, at, half);
    }
}

// All heads of a token, n pairs at a time.
template <template <int> class Layout, int n, int N>
__device__ __forceinline__ void turn_token(const scalar_t* x, const scalar_t* cos, const scalar_t* sin, scalar_t* y,
                                           int heads, int half) {
    const int apart = blockDim.y;
    const long long size = 2 * (long long)half, step = apart * size;
    for (int at = threadIdx.x * n; at < half; at += blockDim.x * n) {
        const PackOf<n> c = *reinterpret_cast<const PackOf<n>*>(cos + at);
        const PackOf<n> s = *reinterpret_cast<const PackOf<n>*>(sin + at);
        int head = threadIdx.y;
        for (; head + (N - 1) * apart < heads; head += N * apart)
            turn_heads<N, Layout<n>>(x + head * size, y + head * size, step, at, half, c, s);
#pragma unroll 1
        for (; head < heads; head += apart)
            turn_heads<1, Layout<n>>(x + head * size, y + head * size, step, at, half, c, s);
    }
}

// `N` packs of x a thread, where rows and addresses allow loads of 16 bytes.
template <template <int> class Layout, int N>
__device__ __forceinline__ void rope_packs(const scalar_t* x, const scalar_t* cos, const scalar_t* sin, scalar_t* y,
                                           long long tokens, int heads, int half) {
    constexpr int n = Layout<1>::most;
    const long long token = (long long)blockIdx.x * blockDim.z + threadIdx.z;
    if (token >= tokens) return;
    const long long row = token * heads * 2 * half;
    cos += token * half, sin += token * half, x += row, y += row;
    if (half % n == 0 && aligned16(x, y, cos, sin))
        turn_token<Layout, n, N>(x, cos, sin, y, heads, half);
    else
        turn_token<Layout, 1, 1>(x, cos, sin, y, heads, half);
}
