// Gradients of RMSNorm of each row (rmsnorm.cu) to x and to the weights; formulas in common/norm_gradients.cuh.
//
// The least traffic is two reads and one write of a matrix. An entry is two launches: the rows, then the columns. The
// entries read both matrices three times, or once.
// scalar_t is float, __half or __nv_bfloat16 (-Dscalar_t=...); the arithmetic is float32 in all three.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include "common/norm_gradients.cuh"

// The formula as written: one block a row, which leaves the row's scale for the sums over the columns.
extern "C" __global__ void rmsnorm_backward_plain(const scalar_t* __restrict__ dy, const scalar_t* __restrict__ x,
                                                  const scalar_t* __restrict__ weight, scalar_t* __restrict__ dx,
                                                  float* __restrict__ scales, long long cols, float eps) {
    __shared__ float table[2][Block::most];
    dy += blockIdx.x * cols, x += blockIdx.x * cols, dx += blockIdx.x * cols;
    float squares = 0.0f, product = 0.0f;
    for (long long c = threadIdx.x; c < cols; c += blockDim.x) {
        squares += float(x[c]) * float(x[c]);
        product += float(dy[c]) * float(weight[c]) * float(x[c]);
    }
    const float scale = rsqrtf(over_block<total>(squares, 0.0f, table[0]) / cols + eps);
    const float mean = over_block<total>(product, 0.0f, table[1]) / cols;
    for (long long c = threadIdx.x; c < cols; c += blockDim.x)
        dx[c] = scalar_t(scale * (float(dy[c]) * float(weight[c]) - float(x[c]) * scale * scale * mean));
    if (threadIdx.x == 0) scales[blockIdx.x] = scale;
}

extern "C" __global__ void rmsnorm_backward_columns(const scalar_t* __restrict__ dy, const scalar_t* __restrict__ x,
                                                    const float* __restrict__ scales, scalar_t* __restrict__ dweight,
                                                    long long rows, int cols) {
    const int mine = blockIdx.x * 32 + threadIdx.x, due = blockIdx.x * 32 + threadIdx.y;
    const float sum = column_sum(rows, mine < cols, [&](long long row) {
        return float(dy[row * cols + mine]) * float(x[row * cols + mine]) * scales[row];
    });
    if (threadIdx.x == 0 && due < cols) dweight[due] = scalar_t(sum);
}

// Every row is read once, the next one while this one is processed. It has blockDim.x threads, a power of two: part of
// a warp, a warp, or the whole block (then blockDim.y is 1; else blockDim.y rows share the block). `partial` has a row
// for each such team, or for each warp of teams. On an H200 at 8,192 x 4,096 in float16: 63 us between events, where
// torch.add of as many bytes takes 51.
extern "C" __global__ void __launch_bounds__(sizeof(scalar_t) == 2 ? 512 : 1024)
    rmsnorm_backward_vec(const scalar_t* __restrict__ dy, const scalar_t* __restrict__ x,
                         const scalar_t* __restrict__ weight, scalar_t* __restrict__ dx, float* __restrict__ partial,
                         long long rows, int cols, float eps) {
    extern __shared__ Pack ring[];
    const bool wide = aligned16(dy, x, weight, dx) && cols % WIDE == 0;
    norm_gradients<false>({kept(dy), kept(x), weight, dx, partial, nullptr, rows, cols, eps}, ring, wide);
}

// Rows of float32 that need all threads of a block have half as many, two packs each, with twice the registers. On an
// H200 at 8,192 x 4,096: 108.5 us between events instead of 110.8.
extern "C" __global__ void __launch_bounds__(512)
    rmsnorm_backward_two(const scalar_t* __restrict__ dy, const scalar_t* __restrict__ x,
                         const scalar_t* __restrict__ weight, scalar_t* __restrict__ dx, float* __restrict__ partial,
                         long long rows, int cols, float eps) {
    const bool wide = aligned16(dy, x, weight, dx) && cols % WIDE == 0;
    norm_gradients_of_two<false>({kept(dy), kept(x), weight, dx, partial, nullptr, rows, cols, eps}, wide);
}

extern "C" __global__ void rmsnorm_backward_add(const float* __restrict__ partial, scalar_t* __restrict__ dweight,
                                                int teams, int cols) {
    add_partial(partial, dweight, teams, cols);
}
