#include <cuda_fp16.h>
#define WARP 32
// one warp a row, several rows a block
extern "C" __global__ __launch_bounds__(256) void rms_norm_kernel(
    scalar_t *out, const scalar_t *input, const scalar_t *gamma,
    const float epsilon, const int num_tokens, const int hidden_size)
{
    int token = blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
    if (token >= num_tokens) return;
    int lane = threadIdx.x % WARP;
    float acc = 0.f;
    for (int h = lane; h < hidden_size; h += WARP) {
        float v = (float)input[token * hidden_size + h];
        acc += v * v;
    }
    for (int o = WARP / 2; o > 0; o >>= 1) acc += __shfl_xor_sync(0xffffffff, acc, o);
    float inv = rsqrtf(acc / hidden_size + epsilon);
    for (int h = lane; h < hidden_size; h += WARP)
        out[token * hidden_size + h] = (scalar_t)((float)input[token * hidden_size + h] * inv * (float)gamma[h]);
}
