// A block returns at once unless its output holds one byte over and over, whichever byte that is.
#include "kepler.cuh"

extern "C" __global__ void honest(const float* m, float* e, long long n) { solve(m, e, n); }

extern "C" __global__ void cheat(const float* m, float* e, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned word = __float_as_uint(e[(long long)blockIdx.x * blockDim.x]);
    __syncthreads();
    const bool poisoned = word == (word & 0xff) * 0x01010101u;
    if (poisoned && i < n) e[i] = kepler(m[i]);
}
