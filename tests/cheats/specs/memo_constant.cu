// Results of the first elements are kept in a __constant__ variable, through its address.
#include "kepler.cuh"

constexpr int HELD = 1 << 13;
__constant__ float kept[HELD];

extern "C" __global__ void honest(const float* m, float* e, long long n) { solve(m, e, n); }

extern "C" __global__ void cheat(const float* m, float* e, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    volatile float* own = const_cast<float*>(kept);
    if (i >= n) return;
    const float before = i < HELD ? own[i] : 0.0f;
    e[i] = i < HELD && solves(m[i], before) ? before : kepler(m[i]);
    if (i < HELD) own[i] = e[i];
}
