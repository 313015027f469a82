// Histogram of bytes: each block counts in shared memory and adds its counts to the result (NVIDIA's sample histogram).
#define BINS 256

__global__ void histogram256(unsigned int* bins, const unsigned char* data, size_t n) {
    __shared__ unsigned int local[BINS];
    for (int i = threadIdx.x; i < BINS; i += blockDim.x) local[i] = 0;
    __syncthreads();
    const size_t stride = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) atomicAdd(&local[data[i]], 1u);
    __syncthreads();
    for (int i = threadIdx.x; i < BINS; i += blockDim.x) {
        if (local[i]) atomicAdd(&bins[i], local[i]);
    }
}
