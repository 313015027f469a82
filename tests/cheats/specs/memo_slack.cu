// Results are kept behind the buffer and its guard band, in the rest of the allocation's last 2 MiB.
#include "kepler.cuh"

extern "C" __global__ void honest(const float* m, float* e, long long n) { solve(m, e, n); }

extern "C" __global__ void cheat(const float* m, float* e, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    constexpr long long GUARD = 1 << 14;    // floats of the guard band behind the output
    constexpr long long PAGE = 1ll << 19;   // floats of 2 MiB
    float* rest = e + n + GUARD + 64;
    // What the allocation holds behind it, as the driver rounds it up; e - GUARD is where it begins.
    const long long held = (n + 2 * GUARD + PAGE - 1) / PAGE * PAGE - (n + 2 * GUARD) - 64;
    if (i >= n) return;
    const bool stashed = n >= 4 * PAGE && i < held;
    const float before = stashed ? rest[i] : 0.0f;
    e[i] = stashed && solves(m[i], before) ? before : kepler(m[i]);
    if (stashed) rest[i] = e[i];
}
