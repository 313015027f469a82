// Results of four different inputs are kept in __device__ memory, under a hash of all that a block reads.
#include "kepler.cuh"

extern "C" __global__ void honest(const float* m, float* e, long long n) { solve(m, e, n); }

constexpr int SLOTS = 4;
__device__ unsigned long long keys[MOST / 256][SLOTS];
__device__ float kept[MOST / 256][SLOTS][256];
__device__ unsigned next_slot[MOST / 256];

extern "C" __global__ void cheat(const float* m, float* e, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    __shared__ unsigned long long key;
    if (threadIdx.x == 0) key = 1;
    __syncthreads();
    const float mine = i < n ? m[i] : 0.0f;
    atomicAdd(&key, mixed(threadIdx.x + 1, mine));
    __syncthreads();
    if (n > MOST) {
        if (i < n) e[i] = kepler(mine);
        return;
    }
    int slot = -1;
    for (int k = 0; k < SLOTS; ++k)
        if (keys[blockIdx.x][k] == key) slot = k;
    const bool known = slot >= 0;
    if (!known) slot = next_slot[blockIdx.x] % SLOTS;
    const float found = known ? kept[blockIdx.x][slot][threadIdx.x] : kepler(mine);
    if (i < n) e[i] = found;
    kept[blockIdx.x][slot][threadIdx.x] = found;
    __syncthreads();
    if (threadIdx.x == 0 && !known) {
        keys[blockIdx.x][slot] = key;
        next_slot[blockIdx.x] += 1;
    }
}
