// Symmetric int8 quantisation with a scale per row: scale = max |x| / 127, q = round(x / scale). A warp per row.
#include <cuda_fp16.h>

__global__ void quantise_rows(const scalar_t* x, int8_t* q, float* scale, int rows, int cols) {
    const int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    x += (size_t)row * cols;
    q += (size_t)row * cols;
    float largest = 0.0f;
    for (int c = threadIdx.x; c < cols; c += 32) largest = fmaxf(largest, fabsf(float(x[c])));
    for (int offset = 16; offset > 0; offset >>= 1)
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, offset));
    const float s = largest / 127.0f;
    const float inverse = largest > 0.0f ? 127.0f / largest : 0.0f;
    for (int c = threadIdx.x; c < cols; c += 32) {
        const int rounded = __float2int_rn(float(x[c]) * inverse);
        q[c] = (int8_t)max(-127, min(127, rounded));
    }
    if (threadIdx.x == 0) scale[row] = s;
}
