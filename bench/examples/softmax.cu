// Softmax of each row: one warp a row, whose lanes exchange the maximum and the sum by shuffles.
__global__ void softmax(const float* x, float* y, int cols) {
    x += (long long)blockIdx.x * cols, y += (long long)blockIdx.x * cols;
    float top = -INFINITY, sum = 0;
    for (int i = threadIdx.x; i < cols; i += 32) top = fmaxf(top, x[i]);
    for (int s = 16; s; s /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, s));
    for (int i = threadIdx.x; i < cols; i += 32) sum += expf(x[i] - top);
    for (int s = 16; s; s /= 2) sum += __shfl_xor_sync(~0u, sum, s);
    for (int i = threadIdx.x; i < cols; i += 32) y[i] = expf(x[i] - top) / sum;
}
