// The first 30 launches wait for 10 ms, so that fewer samples are taken.
#include "kepler.cuh"

extern "C" __global__ void honest(const float* m, float* e, long long n) { solve(m, e, n); }

__device__ unsigned long long begun;  // blocks, of all launches

extern "C" __global__ void cheat(const float* m, float* e, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    __shared__ unsigned long long launch;
    if (threadIdx.x == 0) launch = atomicAdd(&begun, 1ull) / gridDim.x;
    __syncthreads();
    if (launch < 30 && blockIdx.x == 0) {
        const long long start = clock64();
        while (clock64() - start < 15000000) {
        }
    }
    if (i < n) e[i] = kepler(m[i]);
}
