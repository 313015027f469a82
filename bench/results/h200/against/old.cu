// before
template <int EVERY>
__device__ void work(const float* x, float* y, int n) {
    const int times = EVERY && blockIdx.x % (EVERY ? EVERY : 1) == 0 ? 2 : 1;
    for (int k = 0; k < times; ++k) {
        const long long block = (blockIdx.x + k * (long long)(gridDim.x / 2)) % gridDim.x;
        const long long i = 4 * (block * blockDim.x + threadIdx.x);
        if (i + 4 <= n) {
            float4 v = *reinterpret_cast<const float4*>(x + i);
            v.x = 2 * v.x + 1, v.y = 2 * v.y + 1, v.z = 2 * v.z + 1, v.w = 2 * v.w + 1;
            *reinterpret_cast<float4*>(y + i) = v;
        } else {
            for (long long j = i; j < n; ++j) y[j] = 2 * x[j] + 1;
        }
    }
}

extern "C" __global__ void even(const float* x, float* y, int n) { work<0>(x, y, n); }
extern "C" __global__ void one_percent(const float* x, float* y, int n) { work<0>(x, y, n); }
extern "C" __global__ void three_percent(const float* x, float* y, int n) { work<0>(x, y, n); }
extern "C" __global__ void even_scalar(const float* x, float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i] + 1;
}
