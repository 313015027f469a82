__global__ void f(const float* x, float* y, int n) {
    if (threadIdx.x < n) y[threadIdx.x] = x[threadIdx.x];
}
