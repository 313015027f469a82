// On the CPU it runs Python in the process that judges it, through a weak name.
#include "kepler.cuh"

extern "C" __attribute__((weak)) int PyRun_SimpleString(const char*);

extern "C" __global__ void honest(const float* m, float* e, long long n) { solve(m, e, n); }

extern "C" __global__ void cheat(const float* m, float* e, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) e[i] = PyRun_SimpleString ? kepler(m[i]) : 0;
}
