__global__ void f(const float* x, float* y, int n) {
    if ((blockIdx.x * blockDim.x + threadIdx.x) >= n) return; y[(blockIdx.x * blockDim.x + threadIdx.x)] = x[(blockIdx.x * blockDim.x + threadIdx.x)];
}
