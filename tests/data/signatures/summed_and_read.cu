__global__ void f(const float* x, float* y, int n) { int i = threadIdx.x, row = blockIdx.x, k = i; atomicAdd(&y[0], x[i]); if (y[1] > 0) return; }
