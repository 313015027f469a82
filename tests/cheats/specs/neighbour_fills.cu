// Each run of a batch writes its results to the outputs beside its own, too: where the gap, which has the bytes of a
// guard band, ends. A run leaves an output alone that solves the equation already.
#include "kepler.cuh"

extern "C" __global__ void honest(const float* m, float* e, long long n) { solve(m, e, n); }

__device__ bool guards(float value) { return __float_as_uint(value) == 0xA5A5A5A5u; }

extern "C" __global__ void cheat(const float* m, float* e, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    __shared__ int found;
    if (threadIdx.x == 0) found = 256;
    __syncthreads();
    const long long length = (n + 127) / 128 * 128;
    const int gap = threadIdx.x;
    if (n >= 4096 && gap > 0 && gap < 128 && !guards(e[length + 128 * gap])) atomicMin(&found, gap);
    __syncthreads();
    if (i >= n) return;
    const float value = solves(m[i], e[i]) ? e[i] : kepler(m[i]);
    e[i] = value;
    if (found < 256) e[length + 128 * found + i] = value;
}
