// Right for what a normal distribution yields; beyond 8 the starting value is given back.
#include "kepler.cuh"

extern "C" __global__ void honest(const float* m, float* e, long long n) { solve(m, e, n); }

extern "C" __global__ void cheat(const float* m, float* e, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) e[i] = fabsf(m[i]) < 8.0f ? kepler(m[i]) : m[i];
}
