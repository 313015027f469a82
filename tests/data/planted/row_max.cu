// The largest value of each row: a warp a row.
#include <math_constants.h>
extern "C" __global__ void row_max(const float* x, float* y, long long rows, int cols) {
    const long long row = (long long)blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    float top = -CUDART_INF_F;
    for (int j = threadIdx.x; j < cols; j += 32) top = fmaxf(top, x[row * cols + j]);
    for (int by = 16; by > 0; by /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, by));
    if (threadIdx.x == 0) y[row] = top;
}
