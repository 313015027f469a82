#define HEAD const int t = threadIdx.x, lane = t % 32; float v = x[blockIdx.x * 40 + t];
__global__ void absent(const float* x, float* y) { HEAD
    y[t] = __shfl_down_sync(~0u, v, 8); }
__global__ void returned(const float* x, float* y) { HEAD if (t % 2) return;
    y[t] = __shfl_xor_sync(~0u, v, 1); }
__global__ void unnamed(const float* x, float* y) { HEAD if (lane < 4)
    y[t] = __shfl_sync(0xfu, v, 6); }
__global__ void scan(const float* x, float* y) { HEAD
    for (int by = 1; by < 32; by *= 2) {
        const float left = __shfl_up_sync(~0u, v, by);
        if (lane >= by) v += left; }
    y[t] = v; }
__global__ void votes(const float* x, float* y) { HEAD if (t % 2) return;
    y[t] = __popc(__ballot_sync(~0u, 1)) + __popc(__match_any_sync(~0u, 1)) + __reduce_add_sync(~0u, 1u); }
__global__ void elsewhere(const float* x, float* y) { HEAD if (t == 35)
    v += __shfl_down_sync(~0u, v, 1);
    else
    __syncthreads(); y[t] = v; }
