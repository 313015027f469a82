// The last sixteenth is not computed.
#include "kepler.cuh"

extern "C" __global__ void honest(const float* m, float* e, long long n) { solve(m, e, n); }

extern "C" __global__ void cheat(const float* m, float* e, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n - n / 16 || n < 16) {
        if (i < n) e[i] = kepler(m[i]);
    }
}
