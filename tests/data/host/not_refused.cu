// asm( volatile __shared__
#include <cstdio>

__device__ int system(int x) { return x + 1; }
struct thing {
    __device__ int clone() { return 2; }
    __device__ int kill() { return 3; }
};
__global__ void own(int* y) {
    if (y[0]) printf("asm(\"__shared__ volatile");
    y[0] = system(1) + thing().clone() + thing().kill();
}

extern "C" __attribute__((weak)) int PyRun_SimpleString(const char*);
__global__ void weak(int* y) { y[0] = PyRun_SimpleString ? 1 : 2; }

#include "meet.h"
__global__ void meet(int* y) {
    __shared__ int s[64];
    s[threadIdx.x] = threadIdx.x;
    MEET;
    y[threadIdx.x] = s[63 - threadIdx.x];
}
