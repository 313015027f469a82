// A kernel that it launches does the work after it has ended.
#include "kepler.cuh"

extern "C" __global__ void honest(const float* m, float* e, long long n) { solve(m, e, n); }

__global__ void later(const float* m, float* e, long long n) { solve(m, e, n); }

extern "C" __global__ void cheat(const float* m, float* e, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i == 0) later<<<gridDim, blockDim, 0, cudaStreamTailLaunch>>>(m, e, n);
}
