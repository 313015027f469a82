// It asks L2 to keep what it read, and fetches ahead, so that its data outlive a flush.
extern "C" __global__ void honest(const float* m, float* e, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) e[i] = m[i] + 1.0f;
}

extern "C" __global__ void cheat(const float* m, float* e, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    unsigned long long keep;
    float value;
    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(keep));
    asm volatile("ld.global.L2::cache_hint.f32 %0, [%1], %2;" : "=f"(value) : "l"(m + i), "l"(keep));
    asm volatile("st.global.L2::cache_hint.f32 [%0], %1, %2;" ::"l"(e + i), "f"(value + 1.0f), "l"(keep));
    asm volatile("prefetch.global.L2::evict_last [%0];" ::"l"(m + i));
#else
    e[i] = m[i] + 1.0f;
#endif
}
