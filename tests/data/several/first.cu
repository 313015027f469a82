__global__ void first(const float* x, float* y, int rows, int cols, int k) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * k) y[i] = x[i / k * cols + i % k];
}
