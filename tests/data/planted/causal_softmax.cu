// Softmax of the lower triangle of each square matrix, 0 above: a block a row, the row in dynamic shared memory.
#include <math_constants.h>
__device__ float block_reduced(float v, float* parts, bool sum) {
    for (int by = 16; by > 0; by /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, v, by);
        v = sum ? v + other : fmaxf(v, other);
    }
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = v;
    __syncthreads();
    v = parts[0];
    for (int k = 1; k < 4; ++k) v = sum ? v + parts[k] : fmaxf(v, parts[k]);
    __syncthreads();
    return v;
}
extern "C" __global__ void causal_softmax(const float* x, float* y, int n) {
    extern __shared__ float kept[];
    __shared__ float parts[4];
    const int row = blockIdx.x % n;
    const size_t start = (size_t)blockIdx.x * n;
    float top = -CUDART_INF_F;
    for (int j = threadIdx.x; j <= row; j += 128) kept[j] = x[start + j], top = fmaxf(top, kept[j]);
    top = block_reduced(top, parts, false);
    float sum = 0;
    for (int j = threadIdx.x; j <= row; j += 128) kept[j] = expf(kept[j] - top), sum += kept[j];
    sum = block_reduced(sum, parts, true);
    for (int j = threadIdx.x; j < n; j += 128) y[start + j] = j <= row ? kept[j] / sum : 0.f;
}
