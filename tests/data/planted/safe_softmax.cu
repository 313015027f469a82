// Softmax of each row, 0 where all values are masked by -inf: a warp a row.
#include <math_constants.h>
extern "C" __global__ void safe_softmax(const float* x, float* y, long long rows, int cols) {
    const long long row = (long long)blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    x += row * cols, y += row * cols;
    float top = -CUDART_INF_F, sum = 0;
    for (int j = threadIdx.x; j < cols; j += 32) top = fmaxf(top, x[j]);
    for (int by = 16; by > 0; by /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, by));
    const float shift = top == -CUDART_INF_F ? 0.f : top;
    for (int j = threadIdx.x; j < cols; j += 32) sum += expf(x[j] - shift);
    for (int by = 16; by > 0; by /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, by);
    const float scale = sum > 0.f ? 1.f / sum : 0.f;
    for (int j = threadIdx.x; j < cols; j += 32) y[j] = expf(x[j] - shift) * scale;
}
