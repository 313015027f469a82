__global__ void means(const float* x, float* mean, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) mean[i] = x[i]; }
__global__ void minus(const float* mean, float* y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = 1 - mean[i]; }
