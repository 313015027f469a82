#define HEAD __shared__ float s[256]; int t = threadIdx.x
__global__ void branch(const float* x, float* y, int n) { HEAD; if (t < n) { s[t] = x[t];
    __syncthreads(); y[t] = 2 * s[t]; } }
__global__ void mask(const float* x, float* y, int n) { HEAD; if (t >= n) return;
    s[t] = __shfl_xor_sync(~0u, x[t], 1); y[t] = 2 * x[t]; }
__global__ void two(const float* x, float* y, int n) { HEAD; s[t] = 0; if (t < 64)
    __syncthreads(); else
    __syncthreads(); if (t < n) y[t] = 2 * x[t]; }
__global__ void right(const float* x, float* y, int n) { HEAD; s[t] = 0;
    __syncthreads(); __syncwarp(); if (t < n) y[t] = 2 * x[t]; }
