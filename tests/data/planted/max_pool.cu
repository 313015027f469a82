// The largest value of each 3 by 3 window, two apart, with a border that no window prefers; NaN where a window has one.
#include <math_constants.h>
extern "C" __global__ void max_pool(const float* x, float* y, int rows, int cols, int out_rows, int out_cols) {
    const int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= out_rows || j >= out_cols) return;
    const float* image = x + (size_t)blockIdx.z * rows * cols;
    float top = -CUDART_INF_F;
    for (int a = max(2 * i - 1, 0); a <= min(2 * i + 1, rows - 1); ++a)
        for (int b = max(2 * j - 1, 0); b <= min(2 * j + 1, cols - 1); ++b) {
            const float v = image[a * cols + b];
            if (v > top || isnan(v)) top = v;
        }
    y[((size_t)blockIdx.z * out_rows + i) * out_cols + j] = top;
}
