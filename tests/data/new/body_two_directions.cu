__global__ void f(const float* x, float* y, int h, int w) {
    int r = blockIdx.y * blockDim.y + threadIdx.y, c = blockIdx.x * blockDim.x + threadIdx.x; if (r < h && c < w) y[c * h + r] = x[r * w + c];
}
