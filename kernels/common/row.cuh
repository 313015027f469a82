// A row of a row-major matrix in the registers of the threads that share it: blockDim.x threads, a power of two.
//
// A thread has packs of `width` elements: 16 bytes, or one element where rows start off a 16-byte boundary.
// Neighbouring threads have neighbouring packs, then the next blockDim.x packs; `at` counts the packs of one thread.
#pragma once
#include "pack.cuh"

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
