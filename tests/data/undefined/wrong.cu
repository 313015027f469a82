#define SUM for (int k = 16; k; k /= 2) s += __shfl_xor_sync(~0u, s, k)
__global__ void undefined(const float* x, float* y, int n) { int t = threadIdx.x; float s = x[t % n]; if (t < 16)
    SUM; if (t < n) y[t] = s; }
__global__ void forgiven(const float* x, float* y, int n) { int t = threadIdx.x; if (t < n) {
    __syncthreads(); y[t] = 0.f / 0.f; } }
__global__ void apart(const float* x, float* y, int n) { int t = threadIdx.x; if (t < 32)
    __syncthreads(); else
    __syncthreads(); if (t < n) y[t] = 0.f / 0.f; }
