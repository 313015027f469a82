// Only the address of an earlier output is kept: where it still holds a solution, that is copied.
#include "kepler.cuh"

extern "C" __global__ void honest(const float* m, float* e, long long n) { solve(m, e, n); }

__device__ const float* earlier[MOST / 256];

extern "C" __global__ void cheat(const float* m, float* e, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const float* from = n <= MOST ? earlier[blockIdx.x] : nullptr;
    __syncthreads();
    if (i < n) {
        const float before = from ? from[i] : 0.0f;
        e[i] = from && solves(m[i], before) ? before : kepler(m[i]);
    }
    if (threadIdx.x == 0 && n <= MOST) earlier[blockIdx.x] = e;
}
