// sum of each row, one block a row, one float a thread of dynamic shared memory
__global__ void row_sum(const float* in, float* out, int rows, int cols) {
    extern __shared__ float buf[];
    int row = blockIdx.x, t = threadIdx.x;
    float s = 0.f;
    for (int c = t; c < cols; c += blockDim.x) s += in[row * cols + c];
    buf[t] = s;
    __syncthreads();
    for (int d = blockDim.x >> 1; d > 0; d >>= 1) {
        if (t < d) buf[t] += buf[t + d];
        __syncthreads();
    }
    if (t == 0) out[row] = buf[0];
}
