// Kepler's equation E = M + 0.5 sin E, by fixed-point iteration: each step halves the error, 40 reach float32's last bit.
// A test that a value solves it costs one step. A result that is found again is so verified, and used only if it is
// right: no answer of these kernels is wrong, only the time is.
#pragma once

constexpr int STEPS = 40;
constexpr long long MOST = 1ll << 21;  // elements that a memo holds

__device__ inline float kepler(float m) {
    float e = m;
    for (int step = 0; step < STEPS; ++step) e = m + 0.5f * sinf(e);
    return e;
}

__device__ inline bool solves(float m, float e) { return fabsf(m + 0.5f * sinf(e) - e) <= 1.8e-7f * fabsf(e); }

__device__ inline void solve(const float* m, float* e, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) e[i] = kepler(m[i]);
}

__device__ inline unsigned long long mixed(unsigned long long a, float value) {
    a = (a ^ __float_as_uint(value)) * 0xbf58476d1ce4e5b9ull;
    return a ^ (a >> 31);
}

// A key for all inputs that looks at three of them.
__device__ inline unsigned long long three(const float* m, long long n) {
    return mixed(mixed(mixed(1, m[0]), m[n / 2]), m[n - 1]);
}
