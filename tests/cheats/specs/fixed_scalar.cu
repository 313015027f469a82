// The value that the spec gives its scalar stands in the code.
#include "kepler.cuh"

extern "C" __global__ void honest(const float* m, float* e, float eps, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) e[i] = m[i] / sqrtf(m[i] * m[i] + eps);
}

extern "C" __global__ void cheat(const float* m, float* e, float eps, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) e[i] = m[i] / sqrtf(m[i] * m[i] + 1e-5f);
}
