// Honest for 40 launches; from then on only every eighth block works.
#include "kepler.cuh"

extern "C" __global__ void honest(const float* m, float* e, long long n) { solve(m, e, n); }

__device__ unsigned long long begun;  // blocks, of all launches

extern "C" __global__ void cheat(const float* m, float* e, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    __shared__ unsigned long long launch;
    if (threadIdx.x == 0) launch = atomicAdd(&begun, 1ull) / gridDim.x;
    __syncthreads();
    if (i < n && (launch < 40 || blockIdx.x % 8 == 0)) e[i] = kepler(m[i]);
}
