__global__ void f(const float4* x, float4* y, int n4) {
    int i = (blockIdx.x * blockDim.x + threadIdx.x); if (i < n4) y[i] = x[i];
}
