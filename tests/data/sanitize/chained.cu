__global__ void chained(const float* x, float* y, int n) {
    __shared__ float tile[64];
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    tile[t] = i < n ? x[i] : 0;
    if (i < n) y[i] = 2 * x[i] + (t && tile[t - 1] != x[i - 1]);  // right where threads go upwards
}
