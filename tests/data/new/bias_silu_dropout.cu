#include <cuda_fp16.h>
// y = dropout(silu(x + bias)), with a mask of bytes (1 keeps), scaled by 1 / (1 - p). Two halves a thread.
__global__ void bias_silu_dropout(const __half2* __restrict__ x, const __half2* __restrict__ bias,
                                  const unsigned char* __restrict__ mask, __half2* __restrict__ y,
                                  int rows, int cols2, float scale) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    int r = blockIdx.y;
    if (c >= cols2 || r >= rows) return;
    int i = r * cols2 + c;
    float2 v = __half22float2(x[i]);
    float2 b = __half22float2(bias[c]);
    float a0 = v.x + b.x, a1 = v.y + b.y;
    a0 = a0 / (1.0f + __expf(-a0));
    a1 = a1 / (1.0f + __expf(-a1));
    a0 = mask[2 * i] ? a0 * scale : 0.0f;
    a1 = mask[2 * i + 1] ? a1 * scale : 0.0f;
    y[i] = __floats2half2_rn(a0, a1);
}
