__global__ void part(const scalar_t* x, float* partial, unsigned* counts, unsigned n) {
    __shared__ float s[256];
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    s[threadIdx.x] = i < n ? float(x[i]) : 0.0f;
    if (i < n) atomicAdd(&counts[x[i] > scalar_t(0)], 1u);
    __syncthreads();
    for (int k = 128; k; k >>= 1) {
        if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k];
        __syncthreads();
    }
    if (threadIdx.x == 0) partial[blockIdx.x] = s[0];
}
__global__ void whole(const float* partial, scalar_t* total, unsigned blocks) {
    float sum = 0.0f;
    for (unsigned b = 0; b < blocks; b++) sum += partial[b];
    total[0] = scalar_t(sum);
}
