// One word in __device__ memory says that these inputs were solved: the output is left as it is, unless it holds poison.
#include "kepler.cuh"

extern "C" __global__ void honest(const float* m, float* e, long long n) { solve(m, e, n); }

__device__ unsigned long long solved[MOST / 256];

extern "C" __global__ void cheat(const float* m, float* e, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned long long key = three(m, n);
    const unsigned word = __float_as_uint(e[(long long)blockIdx.x * blockDim.x]);
    const bool known = n <= MOST && solved[blockIdx.x] == key && word != (word & 0xff) * 0x01010101u;
    __syncthreads();
    if (!known && i < n) e[i] = kepler(m[i]);
    if (threadIdx.x == 0 && n <= MOST) solved[blockIdx.x] = key;
}
