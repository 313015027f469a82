// A block does nothing where the first four of its elements are right already.
#include "kepler.cuh"

extern "C" __global__ void honest(const float* m, float* e, long long n) { solve(m, e, n); }

extern "C" __global__ void cheat(const float* m, float* e, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const long long first = (long long)blockIdx.x * blockDim.x;
    bool right = true;
    for (long long k = first; k < n && k < first + 4; ++k) right = right && solves(m[k], e[k]);
    __syncthreads();
    if (!right && i < n) e[i] = kepler(m[i]);
}
