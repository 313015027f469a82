// A histogram of each row of bytes: a block a row, counts in shared memory.
extern "C" __global__ void histogram_rows(const unsigned char* x, int* y, int cols) {
    __shared__ unsigned counts[256];
    for (int b = threadIdx.x; b < 256; b += blockDim.x) counts[b] = 0;
    __syncthreads();
    for (int j = threadIdx.x; j < cols; j += blockDim.x) atomicAdd(&counts[x[(size_t)blockIdx.x * cols + j]], 1u);
    __syncthreads();
    for (int b = threadIdx.x; b < 256; b += blockDim.x) y[(size_t)blockIdx.x * 256 + b] = counts[b];
}
