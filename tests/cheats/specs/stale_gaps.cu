// It writes nowhere but reads the memory between the outputs of a batch, where results of others that were freed may lie.
#include "kepler.cuh"

extern "C" __global__ void honest(const float* m, float* e, long long n) { solve(m, e, n); }

extern "C" __global__ void cheat(const float* m, float* e, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float stale = e[(n + 127) / 128 * 128 + i % 16384];
    e[i] = solves(m[i], stale) ? stale : kepler(m[i]);
}
