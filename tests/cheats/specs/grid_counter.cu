// A register has the number of the launch, so that nothing needs to be kept to count them. In spans of 64 launches it
// works, and leaves out every second block in turn.
#include "kepler.cuh"

extern "C" __global__ void honest(const float* m, float* e, long long n) { solve(m, e, n); }

extern "C" __global__ void cheat(const float* m, float* e, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    unsigned long long launch = 0;
#ifdef __CUDA_ARCH__
    asm volatile("mov.u64 %0, %%gridid;" : "=l"(launch));
#endif
    if (i < n && !((launch >> 6 & 1) && blockIdx.x % 2)) e[i] = kepler(m[i]);
}
