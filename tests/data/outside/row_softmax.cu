// Softmax of each row, y[r][c] = exp(x[r][c] - max of row r) / sum over the row; one row is `cols` elements.
// row_softmax_warp: a warp a row. row_softmax_block: a block a row, whose warps combine through shared memory.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float warp_max(float v) {
    for (int s = 16; s > 0; s /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, s));
    return v;
}

__device__ float warp_sum(float v) {
    for (int s = 16; s > 0; s /= 2) v += __shfl_xor_sync(0xffffffffu, v, s);
    return v;
}

__global__ void row_softmax_warp(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, int rows, int cols) {
    const int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    x += (size_t)row * cols;
    y += (size_t)row * cols;
    float top = -INFINITY, sum = 0.0f;
    for (int c = lane; c < cols; c += 32) top = fmaxf(top, float(x[c]));
    top = warp_max(top);
    for (int c = lane; c < cols; c += 32) sum += expf(float(x[c]) - top);
    sum = warp_sum(sum);
    for (int c = lane; c < cols; c += 32) y[c] = scalar_t(expf(float(x[c]) - top) / sum);
}

// exp2 is what the hardware has; log2(e) goes into one multiply-add before it.
__device__ float exp_above(float x, float top) { return exp2f((x - top) * 1.44269504f); }

__global__ void row_softmax_block(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, int cols) {
    __shared__ float partial[32];  // one for each warp: first of the maximum, then of the sum
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    x += (size_t)blockIdx.x * cols;
    y += (size_t)blockIdx.x * cols;

    float top = -INFINITY;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) top = fmaxf(top, float(x[c]));
    top = warp_max(top);
    if (lane == 0) partial[warp] = top;
    __syncthreads();
    top = warp_max(lane < warps ? partial[lane] : -INFINITY);
    __syncthreads();  // all have read the maxima: the sums may take their place

    float sum = 0.0f;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) sum += exp_above(float(x[c]), top);
    sum = warp_sum(sum);
    if (lane == 0) partial[warp] = sum;
    __syncthreads();  // the sums are there
    sum = warp_sum(lane < warps ? partial[lane] : 0.0f);
    for (int c = threadIdx.x; c < cols; c += blockDim.x) y[c] = scalar_t(exp_above(float(x[c]), top) / sum);
}
