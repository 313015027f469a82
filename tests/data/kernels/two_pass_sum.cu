// Sum of an array in two launches: a partial sum for each block, then the sum of those (Harris, Optimizing Parallel
// Reduction in CUDA).
__device__ float block_sum(float sum) {
    extern __shared__ float shared[];
    shared[threadIdx.x] = sum;
    __syncthreads();
    for (unsigned s = blockDim.x / 2; s > 0; s >>= 1) {
        if (threadIdx.x < s) shared[threadIdx.x] += shared[threadIdx.x + s];
        __syncthreads();
    }
    return shared[0];
}

__global__ void reduce_partial(const float* x, float* partial, unsigned n) {
    float sum = 0.0f;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += x[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

__global__ void reduce_final(const float* partial, float* total, unsigned blocks) {
    float sum = 0.0f;
    for (unsigned i = threadIdx.x; i < blocks; i += blockDim.x) sum += partial[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) *total = sum;
}
