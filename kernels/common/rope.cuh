// Rotary position embedding: each pair (a, b) of a head is turned by the angle of its token and its place in the head,
//     (a, b) -> (a cos - b sin, a sin + b cos)
//
// x and y are (tokens, heads, 2 half), cos and sin (tokens, half). Which two elements are a pair is the layout's matter:
// `Halves` pairs element i with half + i, `Interleaved` 2 i with 2 i + 1.
//
// Memory bounds it: x is read and y is written once. A thread takes 16 bytes of each half of one head, in both layouts,
// and ends: all its loads are issued before the first value is used, and many threads hide what they wait for. The
// tables are the same for all heads of a token, whose threads are neighbours; so they come from L1.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include "keep.cuh"
#include "pack.cuh"

// Of 16 bits the products are exact in float32.
__device__ __forceinline__ void turn(scalar_t& first, scalar_t& second, scalar_t cos, scalar_t sin) {
    const float a = float(first), b = float(second), c = float(cos), s = float(sin);
    first = scalar_t(fmaf(a, c, -(b * s))), second = scalar_t(fmaf(b, c, a * s));
}

template <int n> __device__ __forceinline__ PackOf<n> pack_at(const scalar_t* p) {
    return *reinterpret_cast<const PackOf<n>*>(p);
}

// `first` and `second` of a pair: where its elements are. `turn_packs`: the packs at `at` and half + at of a head, whose
// tables begin at `cos` and `sin`.
struct Halves {
    __device__ __forceinline__ static long long first(int pair, int half) { return pair; }
    __device__ __forceinline__ static long long second(int pair, int half) { return (long long)half + pair; }
    __device__ __forceinline__ static void turn_packs(Pack& first, Pack& second, const scalar_t* cos,
                                                      const scalar_t* sin, int at, int half) {
        const Pack c = pack_at<WIDE>(cos + at), s = pack_at<WIDE>(sin + at);
#pragma unroll
        for (int k = 0; k < WIDE; ++k) turn(first.v[k], second.v[k], c.v[k], s.v[k]);
    }
};

struct Interleaved {
    static constexpr int pairs = WIDE / 2;  // of a pack
    __device__ __forceinline__ static long long first(int pair, int half) { return 2 * (long long)pair; }
    __device__ __forceinline__ static long long second(int pair, int half) { return 2 * (long long)pair + 1; }
    __device__ __forceinline__ static void turn_packs(Pack& first, Pack& second, const scalar_t* cos,
                                                      const scalar_t* sin, int at, int half) {
        const PackOf<pairs> c[] = {pack_at<pairs>(cos + at / 2), pack_at<pairs>(cos + half / 2 + at / 2)};
        const PackOf<pairs> s[] = {pack_at<pairs>(sin + at / 2), pack_at<pairs>(sin + half / 2 + at / 2)};
#pragma unroll
        for (int k = 0; k < pairs; ++k) {
            turn(first.v[2 * k], first.v[2 * k + 1], c[0].v[k], s[0].v[k]);
            turn(second.v[2 * k], second.v[2 * k + 1], c[1].v[k], s[1].v[k]);
        }
    }
};

template <class Layout>
__device__ __forceinline__ void turn_pair(const scalar_t* x, const scalar_t* cos, const scalar_t* sin, scalar_t* y,
                                          int pair, int half) {
    const long long one = Layout::first(pair, half), other = Layout::second(pair, half);
    scalar_t first = x[one], second = x[other];
    turn(first, second, cos[pair], sin[pair]);
    y[one] = first, y[other] = second;
}

// One pair a thread, a block for each token.
template <class Layout>
__device__ __forceinline__ void rope_pairs(const scalar_t* x, const scalar_t* cos, const scalar_t* sin, scalar_t* y,
                                           int heads, int half) {
    const long long token = blockIdx.x, pairs = (long long)heads * half;
    x = kept(x), cos += token * half, sin += token * half;
    for (long long j = threadIdx.x; j < pairs; j += blockDim.x) {
        const long long head = (token * heads + j / half) * 2 * half;
        turn_pair<Layout>(x + head, cos, sin, y + head, j % half, half);
    }
}

// Two packs a thread, where rows and addresses allow loads of 16 bytes; else pairs, and in heads of more packs than a
// block has threads. blockIdx.x and threadIdx.z count tokens, the other blocks and threadIdx.y heads, threadIdx.x the
// packs of half a head: no thread divides, and none has a loop around its packs.
template <class Layout>
__device__ __forceinline__ void rope_packs(const scalar_t* x, const scalar_t* cos, const scalar_t* sin, scalar_t* y,
                                           long long tokens, unsigned heads, unsigned half) {
    const long long token = (long long)blockIdx.x * blockDim.z + threadIdx.z;
    const unsigned head = (blockIdx.z * gridDim.y + blockIdx.y) * blockDim.y + threadIdx.y;
    if (token >= tokens || head >= heads) return;
    const bool packs = half % WIDE == 0 && half <= WIDE * blockDim.x && aligned16(x, y, cos, sin);
    const long long row = (token * heads + head) * (2 * half);
    x = kept(x) + row, y += row, cos += token * half, sin += token * half;
    if (packs) {
        const unsigned at = threadIdx.x * WIDE;
        if (at >= half) return;
        Pack first = pack_at<WIDE>(x + at), second = pack_at<WIDE>(x + half + at);
        Layout::turn_packs(first, second, cos, sin, at, half);
        *reinterpret_cast<Pack*>(y + at) = first, *reinterpret_cast<Pack*>(y + half + at) = second;
    } else {
#pragma unroll 1
        for (unsigned pair = threadIdx.x; pair < half; pair += blockDim.x)
            turn_pair<Layout>(x, cos, sin, y, pair, half);
    }
}
