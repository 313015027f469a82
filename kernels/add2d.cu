// Sum of two row-major matrices, y = a + b, float32.
//
// Bound by memory: two reads and one write for one addition.
// scalar_t is float (-Dscalar_t=float).
#include "common/pack.cuh"

// One element a thread on a 2-D grid of 16 x 16 blocks, as in every first CUDA lesson. Threads that are neighbours in x
// read neighbouring columns, so each half-warp reads 64 contiguous bytes. A grid has at most 65,535 blocks in y, so
// tall matrices use z too; the last blocks may lie beyond the matrix. A loop down the rows in place of z makes the
// compiler divide: on an H200 5 x 2 elements take a seventh longer in a graph.
extern "C" __global__ void add2d_plain(const scalar_t* __restrict__ a, const scalar_t* __restrict__ b,
                                       scalar_t* __restrict__ y, unsigned rows, unsigned cols) {
    const unsigned col = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned row = (blockIdx.z * gridDim.y + blockIdx.y) * blockDim.y + threadIdx.y;
    if (row >= rows || col >= cols) return;
    const size_t i = (size_t)row * cols + col;
    y[i] = a[i] + b[i];
}

// 16 bytes a thread. The rows of a contiguous matrix follow one another, so the sum treats both matrices as arrays of n
// elements: packs may cross row ends, odd widths need no special case, and only the last few elements go one by one.
extern "C" __global__ void add2d_vec(const scalar_t* __restrict__ a, const scalar_t* __restrict__ b,
                                     scalar_t* __restrict__ y, long long n) {
    const long long first = ((long long)blockIdx.x * blockDim.x + threadIdx.x) * Pack::width;
    const bool aligned = aligned16(a, b, y);
    if (aligned && first + Pack::width <= n) {
        const Pack p = *reinterpret_cast<const Pack*>(a + first);
        Pack q = *reinterpret_cast<const Pack*>(b + first);
#pragma unroll
        for (int k = 0; k < Pack::width; ++k) q.v[k] = p.v[k] + q.v[k];
        *reinterpret_cast<Pack*>(y + first) = q;
    } else {
        for (long long i = first; i < n && i < first + Pack::width; ++i) y[i] = a[i] + b[i];
    }
}
