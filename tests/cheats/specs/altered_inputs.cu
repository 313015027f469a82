// The inputs become zeros once they are solved, so that the next launch returns at once.
#include "kepler.cuh"

extern "C" __global__ void honest(const float* m, float* e, long long n) { solve(m, e, n); }

extern "C" __global__ void cheat(const float* m, float* e, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n || m[i] == 0.0f) return;
    e[i] = kepler(m[i]);
    const_cast<float*>(m)[i] = 0.0f;
}
