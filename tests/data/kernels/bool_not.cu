// y = !x.
__global__ void bool_not(const bool* __restrict__ x, bool* __restrict__ y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = !x[i];
}
