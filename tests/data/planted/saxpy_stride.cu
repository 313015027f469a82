// a x + y in a grid-stride loop, with a factor by element parity of the row.
extern "C" __global__ void saxpy_stride(const float* x, const float* b, float* y, long long n) {
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) y[i] = 2.5f * x[i] + b[i];
}
