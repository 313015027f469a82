__global__ void fill(float* buffer, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) buffer[i] = i; }
__global__ void twice(const float* buffer, float* y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = 2 * buffer[i]; }
