// y = x / sqrt(mean(x^2) + eps) of rows, in double precision.
__global__ void float64_norm(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, int cols) {
    __shared__ scalar_t total;
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    scalar_t sum = 0;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) sum += x[(size_t)blockIdx.x * cols + c] * x[(size_t)blockIdx.x * cols + c];
    atomicAdd(&total, sum);
    __syncthreads();
    const scalar_t scale = rsqrt(total / cols + 1e-12);
    for (int c = threadIdx.x; c < cols; c += blockDim.x) y[(size_t)blockIdx.x * cols + c] = x[(size_t)blockIdx.x * cols + c] * scale;
}
