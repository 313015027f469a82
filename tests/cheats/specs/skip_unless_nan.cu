// A block returns at once unless its output holds NaN, as it does before a check.
#include "kepler.cuh"

extern "C" __global__ void honest(const float* m, float* e, long long n) { solve(m, e, n); }

extern "C" __global__ void cheat(const float* m, float* e, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const bool poisoned = isnan(e[(long long)blockIdx.x * blockDim.x]);
    __syncthreads();
    if (poisoned && i < n) e[i] = kepler(m[i]);
}
