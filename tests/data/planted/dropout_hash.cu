// Dropout with a hash of the index: a quarter of the elements is 0, the others are scaled.
__device__ unsigned hashed(unsigned v) {
    v ^= v >> 16, v *= 0x7feb352du, v ^= v >> 15, v *= 0x846ca68bu, v ^= v >> 16;
    return v;
}
extern "C" __global__ void dropout_hash(const float* x, float* y, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = hashed(unsigned(i) ^ unsigned(i >> 32)) < 0x40000000u ? 0.f : x[i] * (1 / 0.75f);
}
