// A row of a row-major matrix in the registers of the threads that share it: blockDim.x threads, a power of two.
//
// A thread has packs of `width` elements: 16 bytes, or one element where rows start off a 16-byte boundary.
// Neighbouring threads have neighbouring packs, then the next blockDim.x packs; `at` counts the packs of one thread.
#pragma once
#include "pack.cuh"
#include "two.cuh"

// The column at which pack number `at` of this thread begins.
template <int width> __device__ __forceinline__ int place(int at) { return (at * blockDim.x + threadIdx.x) * width; }

// Packs number at, at + 1, ... of this thread as float32. All loads are issued before the first value is used. Columns
// beyond the row read as `beyond`.
template <int width, int packs>
__device__ __forceinline__ void read(const scalar_t* row, int at, int cols, float beyond, float* v) {
#pragma unroll
    for (int p = 0; p < packs; ++p) {
        const int first = place<width>(at + p);
#pragma unroll
        for (int k = 0; k < width; ++k) v[p * width + k] = beyond;
        if (first < cols) {
            const PackOf<width> pack = *reinterpret_cast<const PackOf<width>*>(row + first);
#pragma unroll
            for (int k = 0; k < width; ++k) v[p * width + k] = float(pack.v[k]);
        }
    }
}

// Packs number at, at + 1, ... of this thread, which stay in registers; element i as float32 is v[i].
template <int width, int packs, int size = sizeof(scalar_t)> struct Held {
    float v[packs * width];

    __device__ __forceinline__ void load(const scalar_t* row, int at, int cols, float beyond) {
        read<width, packs>(row, at, cols, beyond, v);
    }
    __device__ __forceinline__ float operator[](int i) const { return v[i]; }
    __device__ __forceinline__ void again(int) {}
};

// Elements of 16 bits stay as they lie in memory, two in a register, and are converted wherever they are needed: so
// twice as many loads are in flight.
template <int packs> struct Held<8, packs, 2> {
    Words words[packs];

    __device__ __forceinline__ void load(const scalar_t* row, int at, int cols, float beyond) {
        alignas(4) const scalar_t none[2] = {scalar_t(beyond), scalar_t(beyond)};
#pragma unroll
        for (int p = 0; p < packs; ++p) {
            const int first = place<8>(at + p);
#pragma unroll
            for (int k = 0; k < 4; ++k) words[p].v[k] = reinterpret_cast<const unsigned&>(none);
            if (first < cols) words[p] = *reinterpret_cast<const Words*>(row + first);
        }
    }
    __device__ __forceinline__ float operator[](int i) const {
        return float(reinterpret_cast<const scalar_t*>(words[i / 8].v + i % 8 / 2)[i % 2]);
    }
    // Changes nothing, which the compiler does not know: it would keep float32 that it has converted once. `cols` is
    // not negative.
    __device__ __forceinline__ void again(int cols) {
        const unsigned same = 0x3210u + (cols < 0);
#pragma unroll
        for (int i = 0; i < 4 * packs; ++i) words[i / 4].v[i % 4] = __byte_perm(words[i / 4].v[i % 4], 0, same);
    }
};
