#include <curand_kernel.h>
#include <cstdint>
extern "C" __global__ void fused_dropout(const float *in, float *out, bool *mask, const int N, const float prob,
                                         const uint64_t seed, const uint64_t offset)
{
    const int idx = threadIdx.x + blockIdx.x * blockDim.x;
    curandStatePhilox4_32_10_t st;
    curand_init(seed, idx, offset, &st);
    const float scale = 1.f / (1.f - prob);
    for (int i = idx; i < N; i += blockDim.x * gridDim.x) {
        bool keep = curand_uniform(&st) >= prob;
        mask[i] = keep;
        out[i] = keep ? in[i] * scale : 0.f;
    }
}
