// A register tells whether the kernel runs in a graph. There it leaves out every fourth block.
#include "kepler.cuh"

extern "C" __global__ void honest(const float* m, float* e, long long n) { solve(m, e, n); }

extern "C" __global__ void cheat(const float* m, float* e, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    unsigned long long graph = 0;
#ifdef __CUDA_ARCH__
    asm volatile("mov.u64 %0, %%current_graph_exec;" : "=l"(graph));
#endif
    if (i < n && (graph == 0 || blockIdx.x % 4)) e[i] = kepler(m[i]);
}
