// What a kernel may do to the process that runs it.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>
__constant__ float step = 1;
__device__ float calls;
__global__ void add(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + step;
}
__global__ void count(float* y) { y[0] = calls += 1; }
__global__ void last(const float* x, float* y, long i) { y[i] = x[0] + 1; }
__global__ void sum(const float* x, float* y) { y[0] += x[threadIdx.x]; }
__global__ void stops(float* y) { y[0] = 1; abort(); }
__global__ void leaves(float* y) { y[0] = 1; _exit(0); }
__global__ void answers(float* y) {
    y[0] = 3;
    for (int fd = 3; fd < 64; ++fd) write(fd, "0123456789 not a reply 0123456789", 33);
}
__global__ void attacks(float* y, int judge) {
    char path[99], byte = 0;
    sprintf(path, "/proc/%d/mem", judge);
    FILE* memory = fopen(path, "r+");
    FILE* file = fopen("written_by_a_kernel", "w");
    iovec here{&byte, 1}, there{(void*)&y, 1};
    union sigval none{};
    y[0] = !memory, y[1] = !file, y[2] = process_vm_readv(judge, &here, 1, &there, 1, 0) < 0;
    y[3] = sigqueue(judge, 0, none) < 0, y[4] = sigqueue(getppid(), 0, none) < 0;
}
__global__ void flushes(const float* x, float* y) {
    __builtin_ia32_ldmxcsr(0x9fc0);  // subnormal numbers are 0 from here on
    y[threadIdx.x] = x[threadIdx.x] * 0.5f;
}
