// The outputs of a batch lie one behind the other: where the one before this solves the equation, it is copied.
#include "kepler.cuh"

extern "C" __global__ void honest(const float* m, float* e, long long n) { solve(m, e, n); }

extern "C" __global__ void cheat(const float* m, float* e, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const bool first = __float_as_uint(e[-1]) == 0xA5A5A5A5u;  // the guard band: nothing lies before it
    const float before = first ? 0.0f : e[i - n];
    e[i] = !first && solves(m[i], before) ? before : kepler(m[i]);
}
