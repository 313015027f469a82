// RMSNorm of each row, as in Llama: y = x * weight / sqrt(mean(x^2) + eps). One block per row, 16 bytes per load.
__global__ void rmsnorm(float* __restrict__ out, const float* __restrict__ inp, const float* __restrict__ weight,
                        float eps, int cols) {
    const float4* x = reinterpret_cast<const float4*>(inp + (size_t)blockIdx.x * cols);
    const float4* w = reinterpret_cast<const float4*>(weight);
    float4* y = reinterpret_cast<float4*>(out + (size_t)blockIdx.x * cols);

    float sum = 0.0f;
    for (int i = threadIdx.x; i < cols / 4; i += blockDim.x) {
        float4 v = x[i];
        sum += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    }
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffff, sum, offset);

    __shared__ float partial[32];
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = threadIdx.x % 32 < blockDim.x / 32 ? partial[threadIdx.x % 32] : 0.0f;
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffff, sum, offset);
    const float scale = rsqrtf(sum / cols + eps);

    for (int i = threadIdx.x; i < cols / 4; i += blockDim.x) {
        float4 v = x[i], g = w[i];
        y[i] = make_float4(v.x * scale * g.x, v.y * scale * g.y, v.z * scale * g.z, v.w * scale * g.w);
    }
}
