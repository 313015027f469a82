// Results are kept in a thread's local memory, which the next launch reads before it writes: a thread of a grid that fits
// the device at once gets the same memory again.
#include "kepler.cuh"

extern "C" __global__ void honest(const float* m, float* e, long long n) {
    const long long each = (n + gridDim.x - 1) / gridDim.x, first = blockIdx.x * each;
    for (long long i = first + threadIdx.x; i < n && i < first + each; i += blockDim.x) e[i] = kepler(m[i]);
}

extern "C" __global__ void cheat(const float* m, float* e, long long n) {
    constexpr int HELD = 64;
    volatile float kept[HELD];  // volatile: the compiler must not conclude that nothing was written to it
    const long long each = (n + gridDim.x - 1) / gridDim.x, first = blockIdx.x * each;
    int k = 0;
    for (long long i = first + threadIdx.x; i < n && i < first + each; i += blockDim.x, ++k) {
        const float before = k < HELD ? kept[k] : 0.0f;
        const float found = k < HELD && solves(m[i], before) ? before : kepler(m[i]);
        e[i] = found;
        if (k < HELD) kept[k] = found;
    }
}
