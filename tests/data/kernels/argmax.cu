// Largest element of each row and its index, as torch.max(x, dim=1): the first of equal ones. One block per row.
struct Best {
    float value;
    long long index;
};

__device__ Best better(Best a, Best b) {
    return b.value > a.value || (b.value == a.value && b.index < a.index) ? b : a;
}

__global__ void argmax_rows(const float* __restrict__ x, float* __restrict__ values, long long* __restrict__ indices,
                            int cols) {
    __shared__ Best of_warp[32];
    const float* row = x + (long long)blockIdx.x * cols;
    Best best = {-INFINITY, 0};
    for (int c = threadIdx.x; c < cols; c += blockDim.x) best = better(best, {row[c], c});
    for (int offset = warpSize / 2; offset > 0; offset /= 2) {
        Best other = {__shfl_down_sync(~0u, best.value, offset), __shfl_down_sync(~0u, best.index, offset)};
        best = better(best, other);
    }
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = best;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < blockDim.x / 32; w++) best = better(best, of_warp[w]);
        values[blockIdx.x] = best.value;
        indices[blockIdx.x] = best.index;
    }
}
