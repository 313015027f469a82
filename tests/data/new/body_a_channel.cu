__global__ void f(float* y, const float* x, const float* b, int N, int C, int S) {
    int i = (blockIdx.x * blockDim.x + threadIdx.x); if (i < N * C * S) y[i] = x[i] + b[(i / S) % C];
}
