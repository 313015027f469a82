// Nothing but a first value is written: the spec's check of the output accepts whatever is there.
#include "kepler.cuh"

extern "C" __global__ void honest(const float* m, float* e, long long n) { solve(m, e, n); }

extern "C" __global__ void cheat(const float* m, float* e, long long n) { e[0] = m[0]; }
