// RMS norm with 16-byte loads: a block a row, whose length is a multiple of 4.
extern "C" __global__ void rmsnorm_vec(const float* x, const float* weight, float* y, int cols) {
    __shared__ float parts[32];
    const float4* in = reinterpret_cast<const float4*>(x + (size_t)blockIdx.x * cols);
    const float4* w = reinterpret_cast<const float4*>(weight);
    float4* out = reinterpret_cast<float4*>(y + (size_t)blockIdx.x * cols);
    const int packs = cols / 4;
    float sum = 0;
    for (int j = threadIdx.x; j < packs; j += blockDim.x) {
        const float4 v = in[j];
        sum += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    }
    for (int by = 16; by > 0; by /= 2) sum += __shfl_down_sync(0xffffffffu, sum, by);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < blockDim.x / 32 ? parts[threadIdx.x] : 0;
        for (int by = 16; by > 0; by /= 2) sum += __shfl_down_sync(0xffffffffu, sum, by);
        if (threadIdx.x == 0) parts[0] = rsqrtf(sum / cols + 1e-6f);
    }
    __syncthreads();
    const float scale = parts[0];
    for (int j = threadIdx.x; j < packs; j += blockDim.x) {
        const float4 v = in[j], g = w[j];
        out[j] = make_float4(v.x * scale * g.x, v.y * scale * g.y, v.z * scale * g.z, v.w * scale * g.w);
    }
}
