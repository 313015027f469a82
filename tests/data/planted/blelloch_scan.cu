// Exclusive scan of each row of up to 512 values: up the tree and down again.
extern "C" __global__ void blelloch_scan(const float* x, float* y, int cols) {
    __shared__ float s[512];
    const int t = threadIdx.x;
    const size_t row = (size_t)blockIdx.x * cols;
    s[2 * t] = 2 * t < cols ? x[row + 2 * t] : 0.f;
    s[2 * t + 1] = 2 * t + 1 < cols ? x[row + 2 * t + 1] : 0.f;
    int by = 1;
    for (int d = 256; d > 0; d /= 2, by *= 2) {
        __syncthreads();
        if (t < d) s[by * (2 * t + 2) - 1] += s[by * (2 * t + 1) - 1];
    }
    if (t == 0) s[511] = 0;
    for (int d = 1; d < 512; d *= 2) {
        by /= 2;
        __syncthreads();
        if (t < d) {
            const int a = by * (2 * t + 1) - 1, b = by * (2 * t + 2) - 1;
            const float left = s[a];
            s[a] = s[b], s[b] += left;
        }
    }
    __syncthreads();
    if (2 * t < cols) y[row + 2 * t] = s[2 * t];
    if (2 * t + 1 < cols) y[row + 2 * t + 1] = s[2 * t + 1];
}
