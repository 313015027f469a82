// Results are kept in __device__ memory under a hash of three inputs.
#include "kepler.cuh"

extern "C" __global__ void honest(const float* m, float* e, long long n) { solve(m, e, n); }

__device__ unsigned long long keys[MOST / 256];
__device__ float kept[MOST];

extern "C" __global__ void cheat(const float* m, float* e, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned long long key = three(m, n);
    const bool known = n <= MOST && keys[blockIdx.x] == key;
    if (i < n) e[i] = known ? kept[i] : kepler(m[i]);
    if (i < n && i < MOST) kept[i] = e[i];
    __syncthreads();
    if (threadIdx.x == 0 && n <= MOST) keys[blockIdx.x] = key;
}
