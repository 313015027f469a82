#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>

constexpr int TILE = 16;

template <int K>
__global__ void depthwise_kernel(const float* __restrict__ in, const float* __restrict__ weight,
                                 float* __restrict__ out, int channels, int height, int width) {
    constexpr int R = K / 2;
    __shared__ float tile[TILE + K - 1][TILE + K - 1];
    int nc = blockIdx.z;
    int c = nc % channels;
    const float* src = in + (size_t)nc * height * width;
    int x0 = blockIdx.x * TILE, y0 = blockIdx.y * TILE;
    for (int j = threadIdx.y; j < TILE + K - 1; j += TILE)
        for (int i = threadIdx.x; i < TILE + K - 1; i += TILE) {
            int yy = y0 + j - R, xx = x0 + i - R;
            tile[j][i] = (yy >= 0 && yy < height && xx >= 0 && xx < width) ? src[yy * width + xx] : 0.0f;
        }
    __syncthreads();
    int x = x0 + threadIdx.x, y = y0 + threadIdx.y;
    if (x >= width || y >= height) return;
    float acc = 0.0f;
#pragma unroll
    for (int j = 0; j < K; j++)
#pragma unroll
        for (int i = 0; i < K; i++)
            acc += tile[threadIdx.y + j][threadIdx.x + i] * weight[c * K * K + j * K + i];
    out[((size_t)nc * height + y) * width + x] = acc;
}

torch::Tensor depthwise(torch::Tensor in, torch::Tensor weight) {
    auto out = torch::empty_like(in);
    int n = in.size(0), c = in.size(1), h = in.size(2), w = in.size(3);
    dim3 block(TILE, TILE);
    dim3 grid((w + TILE - 1) / TILE, (h + TILE - 1) / TILE, n * c);
    depthwise_kernel<3><<<grid, block>>>(in.data_ptr<float>(), weight.data_ptr<float>(), out.data_ptr<float>(), c, h, w);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
