// A block hands its results to the copy engine of its multiprocessor and ends, without waiting until they are written.
#include "kepler.cuh"

extern "C" __global__ void honest(const float* m, float* e, long long n) { solve(m, e, n); }

extern "C" __global__ void cheat(const float* m, float* e, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    __shared__ alignas(128) float found[256];
    const long long first = (long long)blockIdx.x * blockDim.x;
    if (blockDim.x == 256 && first + 256 <= n && reinterpret_cast<unsigned long long>(e) % 16 == 0) {
        found[threadIdx.x] = kepler(m[i]);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        if (threadIdx.x == 0) {
            const unsigned from = static_cast<unsigned>(__cvta_generic_to_shared(found));
            asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 1024;" ::"l"(e + first), "r"(from)
                         : "memory");
            asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        }
        return;
    }
#endif
    if (i < n) e[i] = kepler(m[i]);
}
