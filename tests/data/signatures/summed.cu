__global__ void f(const int* x, unsigned* bins, int n) { int i = threadIdx.x, row = blockIdx.x, k = i; atomicAdd(&bins[x[i]], 1u); }
