// Results are kept in the array that the spec lends the kernel to work in.
#include "kepler.cuh"

extern "C" __global__ void honest(const float* m, float* e, float* own, long long n) { solve(m, e, n); }

extern "C" __global__ void cheat(const float* m, float* e, float* own, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float before = own[i];
    e[i] = solves(m[i], before) ? before : kepler(m[i]);
    own[i] = e[i];
}
