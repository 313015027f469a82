// A residual connection and the norm that follows it, in one pass: sum[r][c] = x[r][c] + residual[r][c], and
// y[r][c] = sum[r][c] / sqrt(m + eps) * weight[c], where m is the mean of the squares of row r of sum. The norm is that
// of the sum as it is stored, rounded to scalar_t.
//
// The least traffic is two reads and two writes of a matrix. Two kernels need one read more: the sum is read again.
// scalar_t is float, __half or __nv_bfloat16 (-Dscalar_t=...); the arithmetic is float32 in all three.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include "common/keep.cuh"
#include "common/rms_row.cuh"

// The formula as written: one block a row, whose blockDim.x is a power of two. A thread reads again what it has
// written itself, so no barrier is needed in between.
extern "C" __global__ void fused_add_rmsnorm_plain(const scalar_t* __restrict__ x,
                                                   const scalar_t* __restrict__ residual,
                                                   const scalar_t* __restrict__ weight, scalar_t* __restrict__ y,
                                                   scalar_t* __restrict__ sum, long long cols, float eps) {
    __shared__ float table[Block::most];
    const long long start = blockIdx.x * cols;
    x += start, residual += start, y += start, sum += start;
    float squares = 0.0f;
    for (long long c = threadIdx.x; c < cols; c += blockDim.x) {
        sum[c] = scalar_t(float(x[c]) + float(residual[c]));
        squares += float(sum[c]) * float(sum[c]);
    }
    const float scale = inverse_rms(over_block<total>(squares, 0.0f, table), cols, eps);
    for (long long c = threadIdx.x; c < cols; c += blockDim.x)
        y[c] = scalar_t(float(sum[c]) * scale * float(weight[c]));
}

struct Sum : RmsRow {
    const scalar_t *x, *residual;
    scalar_t* sum;

    // Adds, and stores the sum. All loads are issued before the first value is used.
    template <int width, int packs> __device__ __forceinline__ void first(int at, int cols, float* v) const {
        float other[packs * width];
        read<width, packs>(x, at, cols, 0.0f, v);
        read<width, packs>(residual, at, cols, 0.0f, other);
#pragma unroll
        for (int p = 0; p < packs; ++p) {
            PackOf<width> pack;
#pragma unroll
            for (int k = 0; k < width; ++k) {
                pack.v[k] = scalar_t(v[p * width + k] + other[p * width + k]);
                v[p * width + k] = float(pack.v[k]);
            }
            const int column = place<width>(at + p);
            if (column < cols) *reinterpret_cast<PackOf<width>*>(sum + column) = pack;
        }
    }
    template <int width> __device__ __forceinline__ void again(int at, int cols, float* v) const {
        read<width, 1>(sum, at, cols, 0.0f, v);
    }
};

template <class Team>
__device__ __forceinline__ void any_row(const scalar_t* x, const scalar_t* residual, const scalar_t* weight,
                                        scalar_t* y, scalar_t* sum, long long rows, int cols, float eps) {
    __shared__ float table[Team::most];
    if (leaves<Team>(rows)) return;
    Team::open();
    const Columns own = Team::columns(cols);
    const long long start = Team::row() * cols + own.first;
    const bool wide = aligned16(x, residual, weight, y, sum) && cols % WIDE == 0;
    const Sum row = {{weight + own.first, y + start, cols, eps}, kept(x) + start, kept(residual) + start, sum + start};
    any_reduced_row<16, Team>(row, own.count, Team::row() < rows, wide, table);
}

// The row stays in registers. It has blockDim.x threads, a power of two: part of a warp, a warp, or the whole block
// (then blockDim.y is 1; else blockDim.y rows share the block), each with up to 16 elements, since two loads of as many
// are in flight.
extern "C" __global__ void __launch_bounds__(1024)
    fused_add_rmsnorm_vec(const scalar_t* __restrict__ x, const scalar_t* __restrict__ residual,
                          const scalar_t* __restrict__ weight, scalar_t* __restrict__ y, scalar_t* sum, long long rows,
                          int cols, float eps) {
    any_row<Block>(x, residual, weight, y, sum, rows, cols, eps);
}

// The row lies in the registers of a cluster of 2 to 8 blocks, so that 65,536 columns are read once. Not measured, so no
// call takes it yet.
extern "C" __global__ void __launch_bounds__(1024)
    fused_add_rmsnorm_cluster(const scalar_t* __restrict__ x, const scalar_t* __restrict__ residual,
                              const scalar_t* __restrict__ weight, scalar_t* __restrict__ y, scalar_t* sum,
                              long long rows, int cols, float eps) {
    any_row<Cluster>(x, residual, weight, y, sum, rows, cols, eps);
}
