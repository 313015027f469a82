// What the walk through machine code must get right: loops whose rounds the launch decides, and branches on data.
#include <math.h>

// Rounds by integer divisions of three kinds, each of which the compiler spells out: 1 store a round.
extern "C" __global__ void divided(const float* x, float* y, int n, unsigned d, long long m) {
    float v = x[threadIdx.x];
#pragma unroll 1
    for (int i = 0; i < n / (int)d; ++i) y[i] = v;
#pragma unroll 1
    for (unsigned i = 0; i < (unsigned)n % d; ++i) y[i] = v + 1;
#pragma unroll 1
    for (long long i = 0; i < m / (n + 1LL); ++i) y[i] = v + 2;
}

// A grid-stride loop in 64 bits: rounds by the sizes of grid and block.
extern "C" __global__ void strided(const float* x, float* y, long long n) {
    const long long step = (long long)gridDim.x * blockDim.x;
#pragma unroll 1
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) y[i] = x[i];
}

// Rounds and sides that the data decide.
extern "C" __global__ void on_data(const float* x, float* y, long long n) {
    const int i = threadIdx.x;
    float v = x[i];
#pragma unroll 1
    while (v > 1) v = v * v - x[i];
    if (v > 0) y[i] = logf(v) / x[i + 1];
    else y[i + 1] = v;
}

// A tree of sums in shared memory: barriers, and fewer threads at each level.
extern "C" __global__ void tree(const float* x, float* y, long long n) {
    __shared__ float part[256];
    part[threadIdx.x] = x[threadIdx.x];
#pragma unroll 1
    for (int s = 128; s; s /= 2) {
        __syncthreads();
        if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
    }
    if (threadIdx.x == 0) atomicAdd(y, part[0]);
}

// What the hints are about: a constant without f, an array indexed at run time, registers that do not suffice.
extern "C" __global__ void costly(const float* x, float* y, long long n) {
    float kept[16];
    for (int i = 0; i < 16; ++i) kept[i] = x[i] * 0.1 + 1;
    for (int i = 0; i < 16; ++i) y[i] = kept[(int)x[i] & 15];
}

extern "C" __global__ void __launch_bounds__(1024, 2) spilled(const float* x, float* y, long long n) {
    float v[40];
#pragma unroll
    for (int i = 0; i < 40; ++i) v[i] = x[i * n];
#pragma unroll
    for (int i = 0; i < 40; ++i) y[i * n] = v[i] * v[(i * 7 + 5) % 40] + v[(i * 3 + 1) % 40];
}

// A grid-stride loop that the compiler unrolls: it divides once a thread to count the rounds.
extern "C" __global__ void trips(const float* x, float* y, long long n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] += x[i];
}

// The same loop with a division for each element.
extern "C" __global__ void quotients(const float* x, float* y, long long n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[i] = x[i % (unsigned)(n - 1)];
}
