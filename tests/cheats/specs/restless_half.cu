// Its results change in their last bit from launch to launch, so that not all of them are compared. In half of the time,
// by the GPU's clock, it leaves out every second block.
#include "kepler.cuh"

extern "C" __global__ void honest(const float* m, float* e, long long n) { solve(m, e, n); }

extern "C" __global__ void cheat(const float* m, float* e, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    unsigned long long now = 0;
#ifdef __CUDA_ARCH__
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
#endif
    if (i >= n || ((now >> 22 & 1) && blockIdx.x % 2)) return;
    e[i] = __uint_as_float(__float_as_uint(kepler(m[i])) ^ (unsigned)(now >> 10 & 1));
}
