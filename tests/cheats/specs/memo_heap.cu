// Results are kept in memory of the device's own malloc, which outlives the launch.
#include "kepler.cuh"

extern "C" __global__ void honest(const float* m, float* e, long long n) { solve(m, e, n); }

constexpr long long HELD = 3 << 18;  // of the 8 MB that the heap has by default
__device__ float* heap;

extern "C" __global__ void cheat(const float* m, float* e, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    float* kept = heap;
    __syncthreads();
    if (i < n) {
        const float before = kept && i < HELD ? kept[i] : 0.0f;
        e[i] = kept && i < HELD && solves(m[i], before) ? before : kepler(m[i]);
        if (kept && i < HELD) kept[i] = e[i];
    }
    if (i == 0 && !kept) heap = static_cast<float*>(malloc(HELD * sizeof(float)));
}
