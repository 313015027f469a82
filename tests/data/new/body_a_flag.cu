__global__ void f(const float* x, float* y, int n, bool up) {
    if ((blockIdx.x * blockDim.x + threadIdx.x) < n) y[(blockIdx.x * blockDim.x + threadIdx.x)] = up ? x[(blockIdx.x * blockDim.x + threadIdx.x)] : 0;
}
