// Loops that compilers write in several ways: see tests/tools/inspect/test_inspect.py.

// The launch decides the rounds of all three loops.
__global__ void histogram(const unsigned char* x, int* y, int n) {
    __shared__ int bins[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) bins[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&bins[x[i]], 1);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        if (bins[i]) atomicAdd(&y[i], bins[i]);
}

// Data decide the rounds of the inner loop.
__global__ void swap_until_kept(const unsigned char* x, int* y, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        int* place = &y[x[i]];
        int old = *place, seen;
        do {
            seen = old;
            old = atomicCAS(place, seen, max(seen, i));
        } while (seen != old);
    }
}

// The only end is an exit on data.
__global__ void until_zero(const unsigned char* x, int* y, int n) {
    for (int i = threadIdx.x;; i += blockDim.x) {
        if (x[i] == 0) return;
        y[i & 255] = i;
    }
}
