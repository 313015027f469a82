// Results stay in registers, which nobody clears: the next launch reads some that it has never written.
#include "kepler.cuh"

extern "C" __global__ void honest(const float* m, float* e, long long n) {
    const long long each = (n + gridDim.x - 1) / gridDim.x, first = blockIdx.x * each;
    for (long long i = first + threadIdx.x; i < n && i < first + each; i += blockDim.x) e[i] = kepler(m[i]);
}

__device__ float unwritten() {
#ifdef __CUDA_ARCH__
    float value;
    asm volatile("{ .reg .f32 ghost; mov.f32 %0, ghost; }" : "=f"(value));
    return value;
#else
    return 0.0f;
#endif
}

extern "C" __global__ void cheat(const float* m, float* e, long long n) {
    constexpr int HELD = 16;
    float kept[HELD];
#pragma unroll
    for (int k = 0; k < HELD; ++k) kept[k] = unwritten();
    const long long each = (n + gridDim.x - 1) / gridDim.x, first = blockIdx.x * each;
#pragma unroll
    for (int k = 0; k < HELD; ++k) {
        const long long i = first + threadIdx.x + (long long)k * blockDim.x;
        if (i >= n || i >= first + each) continue;
        kept[k] = solves(m[i], kept[k]) ? kept[k] : kepler(m[i]);
        e[i] = kept[k];
    }
    for (long long i = first + threadIdx.x + (long long)HELD * blockDim.x; i < n && i < first + each; i += blockDim.x)
        e[i] = kepler(m[i]);
}
