// A matrix times a vector for each batch: a warp a row.
extern "C" __global__ void batched_gemv(const float* a, const float* x, float* y, int m, int n) {
    const int row = blockIdx.x * blockDim.y + threadIdx.y, batch = blockIdx.y;
    if (row >= m) return;
    const float* in = a + ((size_t)batch * m + row) * n;
    float sum = 0;
    for (int j = threadIdx.x; j < n; j += 32) sum = fmaf(in[j], x[(size_t)batch * n + j], sum);
    for (int by = 16; by > 0; by /= 2) sum += __shfl_down_sync(0xffffffffu, sum, by);
    if (threadIdx.x == 0) y[(size_t)batch * m + row] = sum;
}
