// y = 2 x, done right once, and in ways that end a process, a CUDA context or the patience of whoever waits.
#define AT (blockIdx.x * blockDim.x + threadIdx.x)

__global__ void fine(const float* x, float* y, int n) {
    if (AT < n) y[AT] = 2 * x[AT];
}

__global__ void also_fine(const float* x, float* y, int n) {
    if (AT < n) y[AT] = x[AT] + x[AT];
}

// Not mapped: a segmentation fault on the CPU, an illegal address on a GPU.
__global__ void wild(const float* x, float* y, int n) {
    if (AT < n) *(volatile float*)((AT + 1) * 16ULL) = x[AT];
}

__global__ void endless(const float* x, float* y, int n) {
    for (;;) *(volatile float*)y = x[0];
}

__global__ void trap(const float* x, float* y, int n) {
    if (AT == n / 2) __trap();
}

__global__ void misaligned(const float* x, float* y, int n) {
    const char* first = (const char*)x + 2;
    if (AT < n - 1) y[AT] = ((const volatile float*)first)[AT];
}

// The launches of these do the harm, or only wait.
__global__ void raises(const float* x, float* y, int n) {}
__global__ void exits(const float* x, float* y, int n) {}
__global__ void greedy(const float* x, float* y, int n) {}

__global__ void slow(const float* x, float* y, int n) {
    if (AT < n) y[AT] = 2 * x[AT];
}
