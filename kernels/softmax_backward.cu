// Gradient of the softmax of each row, from its result y: dx[r][c] = y[r][c] * (dy[r][c] - s), where s is the sum of
// y * dy over row r; over a row-major matrix.
//
// The least traffic is two reads and one write of a matrix. The sum must be known before the first result. The entries
// read the rows twice, or once.
// scalar_t is float, __half or __nv_bfloat16 (-Dscalar_t=...); the arithmetic is float32 in all three.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include "common/keep.cuh"
#include "common/reduced_row.cuh"

// The formula as written: one block a row; both rows are read for the sum and for the result.
extern "C" __global__ void softmax_backward_plain(const scalar_t* __restrict__ y, const scalar_t* __restrict__ dy,
                                                  scalar_t* __restrict__ dx, long long cols) {
    __shared__ float table[Block::most];
    y += blockIdx.x * cols, dy += blockIdx.x * cols, dx += blockIdx.x * cols;
    float sum = 0.0f;
    for (long long c = threadIdx.x; c < cols; c += blockDim.x) sum += float(y[c]) * float(dy[c]);
    sum = over_block<total>(sum, 0.0f, table);
    for (long long c = threadIdx.x; c < cols; c += blockDim.x) dx[c] = scalar_t(float(y[c]) * (float(dy[c]) - sum));
}

struct Gradient {
    const scalar_t *y, *dy;
    scalar_t* dx;

    static constexpr int arrays = 2;
    using Value = float;
    __device__ __forceinline__ static float joined(float a, float b) { return a + b; }
    template <int width, int packs> __device__ __forceinline__ void first(int at, int cols, float* v) const {
        read<width, packs>(y, at, cols, 0.0f, v);
        read<width, packs>(dy, at, cols, 0.0f, v + packs * width);
    }
    template <int width> __device__ __forceinline__ void again(int at, int cols, float* v) const {
        first<width, 1>(at, cols, v);
    }
    template <int n> __device__ __forceinline__ float of(const float* v) const {
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < n; ++i) sum = fmaf(v[i], v[n + i], sum);
        return sum;
    }
    __device__ __forceinline__ float result(float sum) const { return sum; }
    template <int width, int next>
    __device__ __forceinline__ void write(int at, int cols, const float* v, float sum) const {
        PackOf<width> out;
#pragma unroll
        for (int k = 0; k < width; ++k) out.v[k] = scalar_t(v[k] * (v[next + k] - sum));
        if (place<width>(at) < cols) *reinterpret_cast<PackOf<width>*>(dx + place<width>(at)) = out;
    }
};

template <class Team>
__device__ __forceinline__ void any_row(const scalar_t* y, const scalar_t* dy, scalar_t* dx, long long rows, int cols) {
    __shared__ float table[Team::most];
    if (leaves<Team>(rows)) return;
    Team::open();
    const Columns own = Team::columns(cols);
    const long long start = Team::row() * cols + own.first;
    const bool wide = aligned16(y, dy, dx) && cols % WIDE == 0;
    const Gradient row = {kept(y) + start, kept(dy) + start, dx + start};
    any_reduced_row<16, Team>(row, own.count, Team::row() < rows, wide, table);
}

// Both rows stay in registers. They have blockDim.x threads, a power of two: part of a warp, a warp, or the whole block
// (then blockDim.y is 1; else blockDim.y rows share the block), each with up to 16 elements of both.
extern "C" __global__ void __launch_bounds__(1024)
    softmax_backward_vec(const scalar_t* __restrict__ y, const scalar_t* __restrict__ dy, scalar_t* __restrict__ dx,
                         long long rows, int cols) {
    any_row<Block>(y, dy, dx, rows, cols);
}

// The rows lie in the registers of a cluster of 2 to 8 blocks, so that 65,536 columns are read once. Not measured, so no
// call takes it yet.
extern "C" __global__ void __launch_bounds__(1024)
    softmax_backward_cluster(const scalar_t* __restrict__ y, const scalar_t* __restrict__ dy,
                             scalar_t* __restrict__ dx, long long rows, int cols) {
    any_row<Cluster>(y, dy, dx, rows, cols);
}
