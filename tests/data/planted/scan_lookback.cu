// Inclusive scan in one launch: a block adds the prefix that the block before it has published.
__device__ float prefix[1024];
__device__ int ready[1024];
__device__ unsigned tickets = 0;
__device__ unsigned done = 0;
extern "C" __global__ void scan_lookback(const float* x, float* y, long long n) {
    __shared__ float s[128];
    __shared__ float before;
    __shared__ unsigned part;
    const int t = threadIdx.x;
    if (t == 0) part = atomicAdd(&tickets, 1u);
    __syncthreads();
    const long long i = part * 128ll + t;
    s[t] = i < n ? x[i] : 0.f;
    __syncthreads();
    for (int by = 1; by < 128; by *= 2) {
        const float left = t >= by ? s[t - by] : 0.f;
        __syncthreads();
        s[t] += left;
        __syncthreads();
    }
    if (t == 0) {
        before = 0;
        if (part > 0) {
            while (atomicAdd(&ready[part - 1], 0) == 0) {}
            __threadfence();
            before = prefix[part - 1];
        }
        prefix[part] = before + s[127];
        __threadfence();
        atomicExch(&ready[part], 1);
    }
    __syncthreads();
    if (i < n) y[i] = before + s[t];
    if (t == 0 && atomicAdd(&done, 1u) == gridDim.x - 1) {
        for (unsigned b = 0; b < gridDim.x; ++b) atomicExch(&ready[b], 0);
        atomicExch(&tickets, 0u), atomicExch(&done, 0u);
    }
}
