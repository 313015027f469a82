// A thread leaves an output alone that solves the equation already: one step in the place of 40.
#include "kepler.cuh"

extern "C" __global__ void honest(const float* m, float* e, long long n) { solve(m, e, n); }

extern "C" __global__ void cheat(const float* m, float* e, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && !solves(m[i], e[i])) e[i] = kepler(m[i]);
}
