// The iteration keeps 12 bits of each value and so needs fewer steps.
#include "kepler.cuh"

extern "C" __global__ void honest(const float* m, float* e, long long n) { solve(m, e, n); }

extern "C" __global__ void cheat(const float* m, float* e, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = m[i];
    for (int step = 0; step < 12; ++step) v = __uint_as_float(__float_as_uint(m[i] + 0.5f * sinf(v)) & 0xfffff000u);
    e[i] = v;
}
