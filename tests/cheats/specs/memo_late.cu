// A thread counts its launches in local memory. It is honest for 100 of them, when first meetings are looked for, and
// keeps its results for three contents from then on.
#include "kepler.cuh"

extern "C" __global__ void honest(const float* m, float* e, long long n) {
    const long long each = (n + gridDim.x - 1) / gridDim.x, first = blockIdx.x * each;
    for (long long i = first + threadIdx.x; i < n && i < first + each; i += blockDim.x) e[i] = kepler(m[i]);
}

extern "C" __global__ void cheat(const float* m, float* e, long long n) {
    constexpr int HELD = 16, SETS = 3;
    constexpr unsigned MARK = 0xC0DE0000u;
    volatile float kept[HELD * SETS];
    volatile unsigned counted[1];
    const unsigned before = counted[0], launches = (before & 0xFFFF0000u) == MARK ? before & 0xFFFFu : 0;
    counted[0] = MARK | (launches < 0xFFFFu ? launches + 1 : launches);
    const long long each = (n + gridDim.x - 1) / gridDim.x, first = blockIdx.x * each;
    int k = 0;
    for (long long i = first + threadIdx.x; i < n && i < first + each; i += blockDim.x, ++k) {
        float found = 0.0f;
        bool known = false;
        for (int set = 0; set < SETS && k < HELD && launches > 100 && !known; ++set) {
            found = kept[SETS * k + set];
            known = solves(m[i], found);
        }
        if (!known) found = kepler(m[i]);
        if (!known && k < HELD && launches > 100) {
            for (int set = SETS - 1; set > 0; --set) kept[SETS * k + set] = kept[SETS * k + set - 1];
            kept[SETS * k] = found;
        }
        e[i] = found;
    }
}
