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
#include "pack_at.cuh"

// Of 16 bits the products are exact in float32.
__device__ __forceinline__ void turn(scalar_t& first, scalar_t& second, scalar_t cos, scalar_t sin) {
    const float a = float(first), b = float(second), c = float(cos), s = float(sin);
    first = scalar_t(fmaf(a, c, -(b * s))), second = scalar_t(fmaf(b, c, a * s));
}

// `first` and `second` of a pair: where its elements are. `turn_packs`: a pack of each half of a head, the one of
// this number, with the tables of its token.
struct Halves {
    __device__ __forceinline__ static long long first(int pair, int half) { return pair; }
    __device__ __forceinline__ static long long second(int pair, int half) { return (long long)half + pair; }
    __device__ __forceinline__ static void turn_packs(Pack& first, Pack& second, const scalar_t* cos,
                                                      const scalar_t* sin, unsigned pack, unsigned half) {
        const Pack c = pack_at<WIDE>(cos + pack * WIDE), s = pack_at<WIDE>(sin + pack * WIDE);
#pragma unroll
        for (int k = 0; k < WIDE; ++k) turn(first.v[k], second.v[k], c.v[k], s.v[k]);
    }
};

struct Interleaved {
    static constexpr int pairs = WIDE / 2;  // of a pack
    __device__ __forceinline__ static long long first(int pair, int half) { return 2 * (long long)pair; }
    __device__ __forceinline__ static long long second(int pair, int half) { return 2 * (long long)pair + 1; }
    __device__ __forceinline__ static void turn_packs(Pack& first, Pack& second, const scalar_t* cos,
                                                      const scalar_t* sin, unsigned pack, unsigned half) {
        cos += pack * pairs, sin += pack * pairs;
        const PackOf<pairs> c[] = {pack_at<pairs>(cos), pack_at<pairs>(cos + half / 2)};
        const PackOf<pairs> s[] = {pack_at<pairs>(sin), pack_at<pairs>(sin + half / 2)};
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

// p after this many rows of so many bytes. Bytes, since a multiplication adds p too; elements would be scaled by shifts.
template <class T> __device__ __forceinline__ T* after(T* p, unsigned long long rows, unsigned bytes) {
    return (T*)((char*)p + rows * bytes);
}

// Two packs a thread, where addresses allow loads of 16 bytes and a block has a thread for each pack of half a head;
// else pairs. blockIdx.x and threadIdx.z count tokens, the other blocks and threadIdx.y heads, threadIdx.x the packs: no
// thread divides, and none has a loop around its packs. At small sizes the code before the first load shows.
template <class Layout>
__device__ __forceinline__ void rope_packs(const scalar_t* x, const scalar_t* cos, const scalar_t* sin, scalar_t* y,
                                           unsigned tokens, unsigned heads, unsigned half) {
    const unsigned token = blockIdx.x * blockDim.z + threadIdx.z;
    const unsigned head = (blockIdx.z * gridDim.y + blockIdx.y) * blockDim.y + threadIdx.y;
    if (token >= tokens || head >= heads) return;
    const unsigned long long row = (unsigned long long)token * heads + head;
    if ((half == WIDE * blockDim.x) & aligned16(x, y, cos, sin)) {
        const unsigned pack = threadIdx.x, bytes = half * (unsigned)sizeof(scalar_t);
        const scalar_t* from = after(kept(x), row, 2 * bytes) + pack * WIDE;
        Pack first = pack_at<WIDE>(from), second = pack_at<WIDE>(from + half);
        Layout::turn_packs(first, second, after(cos, token, bytes), after(sin, token, bytes), pack, half);
        y = after(y, row, 2 * bytes) + pack * WIDE;
        *reinterpret_cast<Pack*>(y) = first, *reinterpret_cast<Pack*>(y + half) = second;
        return;
    }
    cos += (unsigned long long)token * half, sin += (unsigned long long)token * half;
    x = kept(x) + row * (2 * half), y += row * (2 * half);
#pragma unroll 1
    for (unsigned pair = threadIdx.x; pair < half; pair += blockDim.x)
        turn_pair<Layout>(x, cos, sin, y, pair, half);
}
