#include <curand_kernel.h>

// Philox4x32-10 of any counter and key: the four numbers of the block.
__global__ void block_of(uint4* y, const uint4* counter, const uint2* key) {
    curandStatePhilox4_32_10_t s;
    curand_init(key[threadIdx.x].x | (unsigned long long)key[threadIdx.x].y << 32, 0, 0, &s);
    s.ctr = counter[threadIdx.x];
    skipahead_sequence(0, &s);
    y[threadIdx.x] = curand4(&s);
}

template <class State> __device__ void draws(unsigned* y, unsigned long long seed, unsigned long long sequence,
                                             unsigned long long offset, unsigned long long skip, int n) {
    State s;
    curand_init(seed, sequence, offset, &s);
    if (skip) skipahead(skip, &s);
    for (int i = 0; i < n; ++i) y[i] = curand(&s);
}
__global__ void philox(unsigned* y, unsigned long long seed, unsigned long long sequence, unsigned long long offset,
                       unsigned long long skip, int n) {
    draws<curandStatePhilox4_32_10_t>(y, seed, sequence, offset, skip, n);
}
__global__ void xorwow(unsigned* y, unsigned long long seed, unsigned long long sequence, unsigned long long offset,
                       unsigned long long skip, int n) {
    draws<curandState>(y, seed, sequence, offset, skip, n);
}
__global__ void mixed(unsigned* y) {  // one number, then four, then one
    curandStatePhilox4_32_10_t s;
    curand_init(7, 3, 1, &s);
    y[0] = curand(&s);
    const uint4 v = curand4(&s);
    y[1] = v.x, y[2] = v.y, y[3] = v.z, y[4] = v.w;
    y[5] = curand(&s);
}
__global__ void distributions(float* uniform, float* normal, double* wide, float* log_normal, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    curandStatePhilox4_32_10_t s;
    curandStateXORWOW_t t;
    curand_init(99, i, 0, &s);
    curand_init(99, i, 0, &t);
    const float4 u = curand_uniform4(&s), v = curand_normal4(&s);
    const float2 w = curand_normal2(&t);
    uniform[4 * i] = u.x, uniform[4 * i + 1] = u.y, uniform[4 * i + 2] = curand_uniform(&t), uniform[4 * i + 3] = curand_uniform(&s);
    normal[4 * i] = v.x, normal[4 * i + 1] = curand_normal(&s), normal[4 * i + 2] = curand_normal(&s), normal[4 * i + 3] = w.y;
    wide[4 * i] = curand_uniform_double(&s), wide[4 * i + 1] = curand_uniform_double(&t);
    wide[4 * i + 2] = curand_normal_double(&s), wide[4 * i + 3] = curand_normal_double(&t);
    log_normal[i] = curand_log_normal(&s, 0.5f, 0.25f);
}
