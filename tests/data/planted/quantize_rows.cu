// Each row as bytes: 128 + 127 x / max|x|, rounded; a row of zeros is 128.
extern "C" __global__ void quantize_rows(const float* x, unsigned char* y, int cols) {
    __shared__ float parts[4];
    const size_t row = (size_t)blockIdx.x * cols;
    float top = 0;
    for (int j = threadIdx.x; j < cols; j += 128) top = fmaxf(top, fabsf(x[row + j]));
    for (int by = 16; by > 0; by /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, by));
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = top;
    __syncthreads();
    for (int k = 0; k < 4; ++k) top = fmaxf(top, parts[k]);
    const float scale = top > 0 ? 127 / top : 0;
    for (int j = threadIdx.x; j < cols; j += 128) y[row + j] = (unsigned char)(128 + __float2int_rn(x[row + j] * scale));
}
