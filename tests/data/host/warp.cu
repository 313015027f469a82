// Every warp operation, one block, one row of `out` (blockDim.x wide) per operation.
__global__ void shuffles(int* out, const int* x) {
    const int t = threadIdx.x, n = blockDim.x, v = x[t];
    out[0 * n + t] = __shfl_sync(0xffffffffu, v, 3);
    out[1 * n + t] = __shfl_sync(0xffffffffu, v, 11, 8);
    out[2 * n + t] = __shfl_up_sync(0xffffffffu, v, 2);
    out[3 * n + t] = __shfl_up_sync(0xffffffffu, v, 2, 8);
    out[4 * n + t] = __shfl_down_sync(0xffffffffu, v, 3);
    out[5 * n + t] = __shfl_down_sync(0xffffffffu, v, 3, 16);
    out[6 * n + t] = __shfl_xor_sync(0xffffffffu, v, 1);
    out[7 * n + t] = __shfl_xor_sync(0xffffffffu, v, 8, 8);
}

__global__ void votes(unsigned* out, const int* x) {
    const int t = threadIdx.x, n = blockDim.x, v = x[t];
    out[0 * n + t] = __ballot_sync(0xffffffffu, v % 3 == 0);
    out[1 * n + t] = __any_sync(0xffffffffu, v == 40);
    out[2 * n + t] = __all_sync(0xffffffffu, v < 32);
    out[3 * n + t] = __reduce_add_sync(0xffffffffu, v);
    out[4 * n + t] = __match_any_sync(0xffffffffu, v % 4);
    out[5 * n + t] = __activemask();
    out[6 * n + t] = t % 2 ? __activemask() : 0;
    // Each half of the warp goes its own way and meets its own half only.
    if (t % 32 < 16) out[7 * n + t] = __shfl_xor_sync(0x0000ffffu, v, 15);
    else out[7 * n + t] = __shfl_xor_sync(0xffff0000u, v, 1);
}

__global__ void barriers(int* out, const int* x) {
    const int t = threadIdx.x, n = blockDim.x;
    out[0 * n + t] = __syncthreads_count(x[t] % 2);
    out[1 * n + t] = __syncthreads_or(x[t] == 5);
    out[2 * n + t] = __syncthreads_and(x[t] == 5);
    out[3 * n + t] = __syncthreads_and(x[t] >= 0);
}

// Correct with __syncwarp(), wrong without: lanes do not move in lockstep.
__global__ void neighbour(int* out, const int* x) {
    __shared__ int s[64];
    s[threadIdx.x] = x[threadIdx.x];
    __syncwarp();
    out[threadIdx.x] = s[threadIdx.x ^ 1];
}

__global__ void exited_lanes(int* out) {  // those that have returned are not waited for
    if (threadIdx.x % 4) return;
    out[threadIdx.x] = __popc(__ballot_sync(0xffffffffu, 1));
    __syncthreads();
}

__global__ void nobody_there(float* out) {  // 16 threads: the other lanes do not exist
    out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1.0f, 16);
}

__global__ void stuck(float* x) {
    if (threadIdx.x < 16) __syncthreads();
    else if (threadIdx.x < 32) x[0] += __shfl_xor_sync(0xffffffffu, x[0], 1);
}

__global__ void mixed(float* x) {  // the same mask, but not the same operation
    if (threadIdx.x < 16) x[0] = __shfl_xor_sync(0xffffffffu, x[0], 1);
    else x[0] = __ballot_sync(0xffffffffu, 1);
}

__global__ void foreign_mask(int* x) { x[threadIdx.x] = __any_sync(0x1u, 1); }
