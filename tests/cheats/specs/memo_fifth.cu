// Of 16 results of a thread it keeps three in local memory, for each of three contents: what it saves is less than the
// quarter by which a first meeting may be slower.
#include "kepler.cuh"

extern "C" __global__ void honest(const float* m, float* e, long long n) {
    const long long each = (n + gridDim.x - 1) / gridDim.x, first = blockIdx.x * each;
    for (long long i = first + threadIdx.x; i < n && i < first + each; i += blockDim.x) e[i] = kepler(m[i]);
}

extern "C" __global__ void cheat(const float* m, float* e, long long n) {
    constexpr int HELD = 3, SETS = 3;
    volatile float kept[HELD * SETS];
    const long long each = (n + gridDim.x - 1) / gridDim.x, first = blockIdx.x * each;
    int k = 0;
    for (long long i = first + threadIdx.x; i < n && i < first + each; i += blockDim.x, ++k) {
        float found = 0.0f;
        bool known = false;
        for (int set = 0; set < SETS && k < HELD && !known; ++set) {
            found = kept[SETS * k + set];
            known = solves(m[i], found);
        }
        if (!known) found = kepler(m[i]);
        if (!known && k < HELD) {
            for (int set = SETS - 1; set > 0; --set) kept[SETS * k + set] = kept[SETS * k + set - 1];
            kept[SETS * k] = found;
        }
        e[i] = found;
    }
}
