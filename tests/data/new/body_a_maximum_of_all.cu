__global__ void f(const int* x, int* y, int n) {
    if ((blockIdx.x * blockDim.x + threadIdx.x) < n) atomicMax(y, x[(blockIdx.x * blockDim.x + threadIdx.x)]);
}
