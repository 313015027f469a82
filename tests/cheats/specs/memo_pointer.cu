// Results are kept in __device__ memory for the pointers that came with the launch.
#include "kepler.cuh"

extern "C" __global__ void honest(const float* m, float* e, long long n) { solve(m, e, n); }

__device__ const float* inputs[MOST / 256];
__device__ float kept[MOST];

extern "C" __global__ void cheat(const float* m, float* e, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const bool known = n <= MOST && inputs[blockIdx.x] == m;
    if (i < n) e[i] = known ? kept[i] : kepler(m[i]);
    if (i < n && i < MOST) kept[i] = e[i];
    __syncthreads();
    if (threadIdx.x == 0 && n <= MOST) inputs[blockIdx.x] = m;
}
