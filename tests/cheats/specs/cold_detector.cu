// A block that finds its input outside of L2, as it is after a flush, leaves the output as it is.
#include "kepler.cuh"

extern "C" __global__ void honest(const float* m, float* e, long long n) { solve(m, e, n); }

extern "C" __global__ void cheat(const float* m, float* e, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const volatile float* first = m + (long long)blockIdx.x * blockDim.x;
    const long long before = clock64();
    const float value = *first;
    const long long taken = clock64() - before + (value != value);
    const bool cold = __syncthreads_or(threadIdx.x == 0 && taken > 550);
    if (!cold && i < n) e[i] = kepler(m[i]);
}
