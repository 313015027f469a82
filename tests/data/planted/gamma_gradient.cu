// Gradient of gamma: column sums of dy * xhat. Blocks take stripes of rows, and add to y under a lock for each 32 columns.
__global__ void gamma_gradient(const float* dy, const float* xhat, float* y, int* locks, int rows, int cols) {
    __shared__ float s[8][33];
    const int c = blockIdx.x * 32 + threadIdx.x;
    float a = 0;
    for (int r = blockIdx.y * 8 + threadIdx.y; r < rows; r += gridDim.y * 8)
        if (c < cols) a += dy[(size_t)r * cols + c] * xhat[(size_t)r * cols + c];
    s[threadIdx.y][threadIdx.x] = a;
    __syncthreads();
    for (int h = 4; h; h /= 2) {
        if (threadIdx.y < h) s[threadIdx.y][threadIdx.x] += s[threadIdx.y + h][threadIdx.x];
        __syncthreads();
    }
    if (threadIdx.x == 0 && threadIdx.y == 0) {
        while (atomicCAS(locks + blockIdx.x, 0, 1) != 0) {}
        __threadfence();
    }
    __syncthreads();
    if (threadIdx.y == 0 && c < cols) y[c] += s[0][threadIdx.x];
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0 && threadIdx.y == 0) atomicExch(locks + blockIdx.x, 0);
}
