// Results are kept in shared memory, which the next launch reads before it writes. The grid fits the device at once, so
// that a block finds itself on the SM, and at the place in its memory, where it was before.
#include "kepler.cuh"

extern "C" __global__ void honest(const float* m, float* e, long long n) {
    const long long each = (n + gridDim.x - 1) / gridDim.x, first = blockIdx.x * each;
    for (long long i = first + threadIdx.x; i < n && i < first + each; i += blockDim.x) e[i] = kepler(m[i]);
}

extern "C" __global__ void cheat(const float* m, float* e, long long n, long long held) {
    extern __shared__ float kept[];
    const long long each = (n + gridDim.x - 1) / gridDim.x, first = blockIdx.x * each;
    for (long long k = threadIdx.x; k < each && first + k < n; k += blockDim.x) {
        const float before = k < held ? kept[k] : 0.0f;
        const float found = k < held && solves(m[first + k], before) ? before : kepler(m[first + k]);
        e[first + k] = found;
        if (k < held) kept[k] = found;
    }
}
