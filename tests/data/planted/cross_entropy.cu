// Cross-entropy of each row of logits with its target: a warp a row.
#include <math_constants.h>
extern "C" __global__ void cross_entropy(const float* logits, const long long* target, float* y, int rows, int cols) {
    const int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    const float* in = logits + (size_t)row * cols;
    float top = -CUDART_INF_F;
    for (int j = threadIdx.x; j < cols; j += 32) top = fmaxf(top, in[j]);
    for (int by = 16; by > 0; by /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, by));
    float sum = 0;
    for (int j = threadIdx.x; j < cols; j += 32) sum += expf(in[j] - top);
    for (int by = 16; by > 0; by /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, by);
    if (threadIdx.x == 0) y[row] = logf(sum) + top - in[target[row]];
}
