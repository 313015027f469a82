// Threads that wait for each other: fiber mode. No extern "C" here.
__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(0xffffffffu, v, step);
    return v;
}

__global__ void block_sum(float* out, const float* x, int n) {
    __shared__ float part[32];
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += x[i];
    sum = warp_sum(sum);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (lane == 0) part[warp] = sum;
    __syncthreads();
    if (warp > 0) return;
    sum = warp_sum(lane < blockDim.x / 32 ? part[lane] : 0.0f);
    if (lane == 0) out[blockIdx.x] = sum;
}

__global__ void tree_sum(float* out, const float* x, int n) {
    extern __shared__ float partial[];
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    partial[t] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (t < half) partial[t] += partial[t + half];
        __syncthreads();
    }
    if (t == 0) atomicAdd(out, partial[0]);
}

__global__ void transpose(float* out, const float* x, int rows, int cols) {
    __shared__ float tile[32][33];
    for (int band = 0; band < 2; ++band) {  // two tiles one below the other, through the same memory
        const int top = (blockIdx.y * 2 + band) * 32, left = blockIdx.x * 32;
        for (int r = threadIdx.y; r < 32; r += blockDim.y)
            if (top + r < rows && left + threadIdx.x < cols)
                tile[r][threadIdx.x] = x[(top + r) * cols + left + threadIdx.x];
        __syncthreads();
        for (int c = threadIdx.y; c < 32; c += blockDim.y)
            if (left + c < cols && top + threadIdx.x < rows)
                out[(left + c) * rows + top + threadIdx.x] = tile[threadIdx.x][c];
        __syncthreads();
    }
}

__global__ void count_positive(int* count, const float* x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned votes = __ballot_sync(0xffffffffu, i < n && x[i] > 0.0f);
    if (threadIdx.x % 32 == 0) atomicAdd(count, __popc(votes));
}
