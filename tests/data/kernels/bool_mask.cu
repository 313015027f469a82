// y = x > 0, a mask.
__global__ void bool_mask(const float* __restrict__ x, scalar_t* __restrict__ y, long long n) {
    const long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
    if (i < n) y[i] = x[i] > 0.0f;
}
