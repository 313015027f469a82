#include <cuda_fp16.h>
__global__ void rms(const scalar_t* x, const scalar_t* w, scalar_t* y, float* scale, float eps, int rows, int cols) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int c = 0; c < cols; c++) sum += float(x[row * cols + c]) * float(x[row * cols + c]);
    float s = rsqrtf(sum / cols + eps);
    scale[row] = s;
    for (int c = 0; c < cols; c++) y[row * cols + c] = scalar_t(float(x[row * cols + c]) * s * float(w[c]));
}
