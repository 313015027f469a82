// The sum of the squares of an array in one launch. Each block leaves its part; the last one to arrive adds the parts.
extern "C" __global__ void sum_of_squares(const float* x, float* y, float* part, unsigned* arrived, long long n) {
    __shared__ float s[128];
    __shared__ bool last;
    const int t = threadIdx.x;
    const unsigned block = blockIdx.x;
    const long long i = block * 128ll + t;
    s[t] = i < n ? x[i] * x[i] : 0.f;
    __syncthreads();
    for (int half = 64; half > 0; half /= 2) {
        if (t < half) s[t] += s[t + half];
        __syncthreads();
    }
    if (t == 0) {
        part[block] = s[0];
        __threadfence();
        last = atomicAdd(arrived, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    float sum = 0;
    for (int b = t; b < gridDim.x; b += 128) sum += part[b];
    s[t] = sum;
    __syncthreads();
    for (int half = 64; half > 0; half /= 2) {
        if (t < half) s[t] += s[t + half];
        __syncthreads();
    }
    if (t == 0) y[0] = s[0];
}
