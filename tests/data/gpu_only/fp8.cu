// y = 2 x, through 8-bit floats.
#include <cuda_fp8.h>

__global__ void twice(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * float(__nv_fp8_e4m3(x[i]));
}
