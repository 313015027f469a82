__global__ void k(const float* x, float* y) {
    const int t = threadIdx.x;
    float v = x[blockIdx.x * 40 + t], unused;
    unused = __shfl_down_sync(~0u, v, 31);
    for (int by = 16; by; by /= 2) {
        const float other = __shfl_down_sync(~0u, v, by);
        if (CONDITION) v += other;
    }
    if (t % 32 == 0) atomicAdd(y + blockIdx.x, v + (unused > 1e38f && t == 40));
}
