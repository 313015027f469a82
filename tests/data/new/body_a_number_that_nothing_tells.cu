__global__ void f(const float* x, float* y, int n, int k) {
    if ((blockIdx.x * blockDim.x + threadIdx.x) < n) y[(blockIdx.x * blockDim.x + threadIdx.x)] = x[(blockIdx.x * blockDim.x + threadIdx.x)] * k;
}
