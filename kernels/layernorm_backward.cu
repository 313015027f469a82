// Gradients of layer normalisation of each row (layernorm.cu) to x, gamma and beta; common/norm_gradients.cuh has the
// formulas.
//
// The least traffic is two reads and one write of a matrix. An entry is two launches: the rows, then the columns. The
// entries read both matrices several times, or once.
// scalar_t is float, __half or __nv_bfloat16 (-Dscalar_t=...); the arithmetic is float32 in all three.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include "common/norm_gradients.cuh"

// The formula as written: one block a row, which leaves the row's mean and scale for the sums over the columns.
extern "C" __global__ void layernorm_backward_plain(const scalar_t* __restrict__ dy, const scalar_t* __restrict__ x,
                                                    const scalar_t* __restrict__ gamma, scalar_t* __restrict__ dx,
                                                    float* __restrict__ means, float* __restrict__ scales,
                                                    long long cols, float eps) {
    __shared__ float table[4][Block::most];
    dy += blockIdx.x * cols, x += blockIdx.x * cols, dx += blockIdx.x * cols;
    float sum = 0.0f, squares = 0.0f, g = 0.0f, product = 0.0f;
    for (long long c = threadIdx.x; c < cols; c += blockDim.x) sum += float(x[c]);
    const float mean = over_block<total>(sum, 0.0f, table[0]) / cols;
    for (long long c = threadIdx.x; c < cols; c += blockDim.x) {
        const float d = float(x[c]) - mean, weighted = float(dy[c]) * float(gamma[c]);
        squares += d * d, g += weighted, product += weighted * d;
    }
    const float scale = rsqrtf(over_block<total>(squares, 0.0f, table[1]) / cols + eps);
    const float mean_g = over_block<total>(g, 0.0f, table[2]) / cols;
    const float mean_product = over_block<total>(product, 0.0f, table[3]) / cols;
    for (long long c = threadIdx.x; c < cols; c += blockDim.x) {
        const float d = float(x[c]) - mean, weighted = float(dy[c]) * float(gamma[c]);
        dx[c] = scalar_t(scale * (weighted - mean_g - d * scale * scale * mean_product));
    }
    if (threadIdx.x == 0) means[blockIdx.x] = mean, scales[blockIdx.x] = scale;
}

// blockIdx.y: 0 for gamma, 1 for beta.
extern "C" __global__ void layernorm_backward_columns(const scalar_t* __restrict__ dy, const scalar_t* __restrict__ x,
                                                      const float* __restrict__ means,
                                                      const float* __restrict__ scales, scalar_t* __restrict__ dgamma,
                                                      scalar_t* __restrict__ dbeta, long long rows, int cols) {
    const int mine = blockIdx.x * 32 + threadIdx.x, due = blockIdx.x * 32 + threadIdx.y;
    const float sum = column_sum(rows, mine < cols, [&](long long row) {
        const float gradient = float(dy[row * cols + mine]);
        return blockIdx.y ? gradient : gradient * (float(x[row * cols + mine]) - means[row]) * scales[row];
    });
    if (threadIdx.x == 0 && due < cols) (blockIdx.y ? dbeta : dgamma)[due] = scalar_t(sum);
}

// Every row is read once, the next one while this one is processed. It has blockDim.x threads, a power of two: part of
// a warp, a warp, or the whole block (then blockDim.y is 1; else blockDim.y rows share the block). `partial` has a row
// for each such team, or for each warp of teams, of the sums for gamma, and as many after them of those for beta. On an
// H200 at 8,192 x 4,096 in float16: 70 us between events, where torch.add of as many bytes takes 51.
extern "C" __global__ void __launch_bounds__(sizeof(scalar_t) == 2 ? 512 : 1024)
    layernorm_backward_vec(const scalar_t* __restrict__ dy, const scalar_t* __restrict__ x,
                           const scalar_t* __restrict__ gamma, scalar_t* __restrict__ dx, float* __restrict__ partial,
                           long long rows, int cols, float eps) {
    extern __shared__ Pack ring[];
    const bool wide = aligned16(dy, x, gamma, dx) && cols % WIDE == 0;
    float* const betas = partial + gridDim.x * blockDim.y / joined() * (long long)cols;
    norm_gradients<true>({kept(dy), kept(x), gamma, dx, partial, betas, rows, cols, eps}, ring, wide);
}

// Rows of float32 that need all threads of a block have half as many, two packs each, with twice the registers. On an
// H200 at 8,192 x 4,096: 113 us between events instead of 123.
extern "C" __global__ void __launch_bounds__(512)
    layernorm_backward_two(const scalar_t* __restrict__ dy, const scalar_t* __restrict__ x,
                           const scalar_t* __restrict__ gamma, scalar_t* __restrict__ dx, float* __restrict__ partial,
                           long long rows, int cols, float eps) {
    const bool wide = aligned16(dy, x, gamma, dx) && cols % WIDE == 0;
    float* const betas = partial + gridDim.x * (long long)cols;
    norm_gradients_of_two<true>({kept(dy), kept(x), gamma, dx, partial, betas, rows, cols, eps}, wide);
}

// blockIdx.y: 0 for gamma, 1 for beta.
extern "C" __global__ void layernorm_backward_add(const float* __restrict__ partial, scalar_t* __restrict__ dgamma,
                                                  scalar_t* __restrict__ dbeta, int teams, int cols) {
    const float* const own = partial + (long long)blockIdx.y * teams * cols;
    add_partial(own, blockIdx.y ? dbeta : dgamma, teams, cols);
}
