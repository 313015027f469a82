// y = 2 x, once right and then with a bug each that the result does not show. Line numbers are asserted by the tests.
__global__ void right(const float* x, float* y, int n) {
    __shared__ float tile[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = i < n ? x[i] : 0;
    __syncthreads();
    if (i < n) y[i] = tile[threadIdx.x] + tile[threadIdx.x];
}
__global__ void reads_past(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float next = __ldg(x + i + (i < n));  // one past the end, from the last element on
    if (i < n) y[i] = next == 12345 ? next : 2 * x[i];
}
__global__ void shared_past(const float* x, float* y, int n) {
    __shared__ float tile[64];
    float* mine = tile;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    mine[threadIdx.x] = i < n ? x[i] : 0;
    __syncthreads();
    float next = mine[threadIdx.x + 1];
    if (i < n) y[i] = next == 12345 ? next : 2 * mine[threadIdx.x];
}
__global__ void dynamic_past(const float* x, float* y, int n) {
    extern __shared__ float tile[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x + 1] = i < n ? x[i] : 0;
    if (i < n) y[i] = 2 * x[i];
}
__global__ void overflows(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int sum = i + 2147483647;
    if (i < n) y[i] = sum == 12345 ? sum : 2 * x[i];
}
__global__ void races(const float* x, float* y, int n) {
    __shared__ float tile[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = i < n ? x[i] : 0;
    float other = tile[threadIdx.x ^ 32];  // another warp's: no barrier
    if (i < n) y[i] = other == 12345 ? other : 2 * x[i];
}
__global__ void reads_unwritten(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = y[i] == 12345 ? y[i] : 2 * x[i];
}
__global__ void diverges(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x < 48) __syncthreads();  // not reached by all threads, not even by all of a warp
    if (i < n) y[i] = 2 * x[i];
}
