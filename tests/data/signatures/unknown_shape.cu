__global__ void f(const float* x, float* y, float* s, int cols) { int i = threadIdx.x, row = blockIdx.x, k = i; s[k] = x[0]; y[k * cols + i] = 1; }
