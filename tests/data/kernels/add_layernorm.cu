// residual = x + update, normed = layernorm(residual): the fused residual of a transformer. One warp per row (llm.c,
// dev/cuda/fused_residual_forward.cu and layernorm_forward.cu).
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__global__ void fused_residual_layernorm(scalar_t* residual, scalar_t* normed, const scalar_t* x,
                                         const scalar_t* update, const float* weight, const float* bias, float eps,
                                         int N, int C) {
    const int lane = threadIdx.x % 32;
    const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (row >= N) return;
    x += (long long)row * C;
    update += (long long)row * C;
    residual += (long long)row * C;
    normed += (long long)row * C;

    float mean = 0.0f;
    for (int c = lane; c < C; c += 32) {
        const scalar_t r = scalar_t(float(x[c]) + float(update[c]));
        residual[c] = r;
        mean += float(r);
    }
    for (int offset = 16; offset > 0; offset >>= 1) mean += __shfl_xor_sync(0xFFFFFFFF, mean, offset);
    mean /= C;

    float variance = 0.0f;
    for (int c = lane; c < C; c += 32) {
        const float d = float(residual[c]) - mean;
        variance += d * d;
    }
    for (int offset = 16; offset > 0; offset >>= 1) variance += __shfl_xor_sync(0xFFFFFFFF, variance, offset);
    const float s = rsqrtf(variance / C + eps);

    for (int c = lane; c < C; c += 32) {
        normed[c] = scalar_t(s * (float(residual[c]) - mean) * weight[c] + bias[c]);
    }
}
