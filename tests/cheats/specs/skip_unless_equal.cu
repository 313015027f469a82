// It knows that a poison is one word again and again: only where an output's elements are equal to those beside them does
// it compute them.
#include "kepler.cuh"

extern "C" __global__ void honest(const float* m, float* e, long long n) { solve(m, e, n); }

extern "C" __global__ void cheat(const float* m, float* e, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const long long other = i + 1 < n ? i + 1 : i - 1;
    const bool equal = i >= n || n < 2 || __float_as_uint(e[i]) == __float_as_uint(e[other]);
    const bool poisoned = __syncthreads_or(equal);
    if (i < n && poisoned) e[i] = kepler(m[i]);
}
