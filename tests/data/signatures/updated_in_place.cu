__global__ void f(float* p, const float* g, float* m, int n) { int i = threadIdx.x, row = blockIdx.x, k = i; m[i] = 0.9f * m[i] + g[i]; p[i] -= m[i]; }
