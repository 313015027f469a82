// Softmax of each row in one pass over the row for maximum and sum: a block a row.
#include <math_constants.h>
extern "C" __global__ void softmax_online(const float* x, float* y, int cols) {
    __shared__ float tops[8], sums[8];
    const size_t row = (size_t)blockIdx.x * cols;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float top = -CUDART_INF_F, sum = 0;
    for (int j = threadIdx.x; j < cols; j += blockDim.x) {
        const float v = x[row + j], higher = fmaxf(top, v);
        if (higher != -CUDART_INF_F || v != v) sum = sum * __expf(top - higher) + __expf(v - higher);
        top = higher;
    }
    for (int by = 16; by > 0; by /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, top, by), others = __shfl_xor_sync(0xffffffffu, sum, by);
        const float higher = fmaxf(top, other);
        if (higher != -CUDART_INF_F) sum = sum * __expf(top - higher) + others * __expf(other - higher);
        top = higher;
    }
    if (lane == 0) tops[warp] = top, sums[warp] = sum;
    __syncthreads();
    float all = -CUDART_INF_F, total = 0;
    for (int w = 0; w < 8; ++w) all = fmaxf(all, tops[w]);
    for (int w = 0; w < 8; ++w)
        if (tops[w] != -CUDART_INF_F) total += sums[w] * __expf(tops[w] - all);
    for (int j = threadIdx.x; j < cols; j += blockDim.x) y[row + j] = __expf(x[row + j] - all) / total;
}
