// Root mean square norm of each row (Zhang and Sennrich 2019), y[r][c] = x[r][c] / sqrt(m + eps) * weight[c], over a
// row-major matrix; m is the mean of the squares of row r.
//
// The least traffic is one read and one write of the matrix; the weights stay in cache. Every square must be known
// before the first result. The entries read a row twice, or once.
// scalar_t is float, __half or __nv_bfloat16 (-Dscalar_t=...); the arithmetic is float32 in all three.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include "common/keep.cuh"
#include "common/rms_row.cuh"

// The formula as written: one block a row, whose blockDim.x is a power of two; the row is read for the squares and for
// the result.
extern "C" __global__ void rmsnorm_plain(const scalar_t* __restrict__ x, const scalar_t* __restrict__ weight,
                                         scalar_t* __restrict__ y, long long cols, float eps) {
    __shared__ float table[Block::most];
    x += blockIdx.x * cols, y += blockIdx.x * cols;
    float squares = 0.0f;
    for (long long c = threadIdx.x; c < cols; c += blockDim.x) squares += float(x[c]) * float(x[c]);
    const float scale = inverse_rms(over_block<total>(squares, 0.0f, table), cols, eps);
    for (long long c = threadIdx.x; c < cols; c += blockDim.x)
        y[c] = scalar_t(float(x[c]) * scale * float(weight[c]));
}

struct Matrix : RmsRow {
    const scalar_t* x;

    template <int width, int packs> __device__ __forceinline__ void first(int at, int cols, float* v) const {
        read<width, packs>(x, at, cols, 0.0f, v);
    }
    template <int width> __device__ __forceinline__ void again(int at, int cols, float* v) const {
        read<width, 1>(x, at, cols, 0.0f, v);
    }
};

template <class Team>
__device__ __forceinline__ void any_row(const scalar_t* x, const scalar_t* weight, scalar_t* y, long long rows,
                                        int cols, float eps) {
    __shared__ float table[Team::most];
    if (leaves<Team>(rows)) return;
    Team::open();
    const Columns own = Team::columns(cols);
    const long long start = Team::row() * cols + own.first;
    const bool wide = aligned16(x, weight, y) && cols % WIDE == 0;
    const Matrix row = {{weight + own.first, y + start, cols, eps}, kept(x) + start};
    any_reduced_row<32, Team>(row, own.count, Team::row() < rows, wide, table);
}

// The row stays in registers. It has blockDim.x threads, a power of two: part of a warp, a warp, or the whole block
// (then blockDim.y is 1; else blockDim.y rows share the block), each with up to 32 elements.
extern "C" __global__ void __launch_bounds__(1024)
    rmsnorm_vec(const scalar_t* __restrict__ x, const scalar_t* __restrict__ weight, scalar_t* __restrict__ y,
                long long rows, int cols, float eps) {
    any_row<Block>(x, weight, y, rows, cols, eps);
}

// The row lies in the registers of a cluster of 2 to 8 blocks, so that 65,536 columns are read once. On an H200
// at 1,024 x 65,536: 165 us in float32, where rmsnorm_vec takes 176, and 97 in float16, where it takes 87.
extern "C" __global__ void __launch_bounds__(1024)
    rmsnorm_cluster(const scalar_t* __restrict__ x, const scalar_t* __restrict__ weight, scalar_t* __restrict__ y,
                    long long rows, int cols, float eps) {
    any_row<Cluster>(x, weight, y, rows, cols, eps);
}
