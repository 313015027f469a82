// Results are kept in the guard band behind the output.
#include "kepler.cuh"

extern "C" __global__ void honest(const float* m, float* e, long long n) { solve(m, e, n); }

extern "C" __global__ void cheat(const float* m, float* e, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    constexpr long long GUARD = 1 << 14;  // floats of the guard band behind the output
    if (i >= n) return;
    const bool stashed = i < GUARD;
    const float before = stashed ? e[n + i] : 0.0f;
    e[i] = stashed && solves(m[i], before) ? before : kepler(m[i]);
    if (stashed) e[n + i] = e[i];
}
