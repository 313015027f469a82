// Sum of each row, y[r] = x[r][0] + ... + x[r][cols - 1]: a block a row. Every thread adds the elements at its own stride,
// then the block adds its threads in a tree whose order is fixed: the same bits in every run, unlike atomicAdd.

// The tree inside a warp is made of shuffles, and one value a warp goes through shared memory.
__global__ void block_sum_shuffle(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, int cols) {
    __shared__ scalar_t partial[32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    scalar_t sum = 0;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) sum += x[(size_t)blockIdx.x * cols + c];
    for (int s = 16; s > 0; s /= 2) sum += __shfl_down_sync(0xffffffffu, sum, s);
    if (lane == 0) partial[warp] = sum;
    __syncthreads();
    if (warp > 0) return;
    sum = lane < warps ? partial[lane] : scalar_t(0);
    for (int s = 16; s > 0; s /= 2) sum += __shfl_down_sync(0xffffffffu, sum, s);
    if (lane == 0) y[blockIdx.x] = sum;
}

// The whole tree goes through shared memory: blockDim.x elements, given at the launch; blockDim.x is a power of two.
__global__ void block_sum_tree(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, int cols) {
    extern __shared__ scalar_t sums[];
    scalar_t sum = 0;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) sum += x[(size_t)blockIdx.x * cols + c];
    sums[threadIdx.x] = sum;
    for (int s = blockDim.x / 2; s > 0; s /= 2) {
        __syncthreads();
        if (threadIdx.x < s) sums[threadIdx.x] += sums[threadIdx.x + s];
    }
    if (threadIdx.x == 0) y[blockIdx.x] = sums[0];
}
