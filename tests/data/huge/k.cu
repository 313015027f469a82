// y = x + 1 or the like of n elements, beyond 2^31. The line above a kernel says what a check of such arrays tells, where ...
// stands for anything; "right": nothing.
#define I blockIdx.x * blockDim.x + threadIdx.x
// right
__global__ void each(const float* x, float* y, long long n) { long long i = (long long)I; if (i < n) y[i] = x[i] + 1; }
// right
__global__ void stride(const float* x, float* y, long long n) {
    for (long long i = I; i < n; i += gridDim.x * blockDim.x) y[i] = x[i] + 1; }
// right
__global__ void reversed(const float* x, float* y, long long n) {
    long long i = (long long)I; if (i < n) y[i] = x[n - 1 - i] + x[i]; }
// right
__global__ void first(const float* x, float* y, long long n) {
    long long i = (long long)I; if (i < n) y[i] = x[i] - x[0] + x[threadIdx.x]; }
// right
__global__ void last(const float* x, float* y, long long n) {
    long long i = (long long)I; if (i < n) y[i] = x[i]; if (i == n - 1) y[i] += x[1]; }
// ...outside an array (argument 1) at k.cu:19...element -21
__global__ void index_int(const float* x, float* y, long long n) { int i = I; if (i < n) y[i] = x[i] + 1; }
// ...nothing to the second half of 'y'
__global__ void index_unsigned(const float* x, float* y, long long n) { unsigned i = I; if (i < n) y[i] = x[i] + 1; }
// ...outside an array (argument 1) at k.cu:24...element -21
__global__ void stride_int(const float* x, float* y, long long n) {
    for (int i = I; i < n; i += gridDim.x * blockDim.x) y[i] = x[i] + 1; }
// refused: at x 2148532
__global__ void count_int(const float* x, float* y, int n) { int i = I; if (i < n) y[i] = x[i] + 1; }
// k.cu:29: the last blocks read none but the first 1,048,579 elements of 'x
__global__ void read_unsigned(const float* x, float* y, long long n) {
    long long i = (long long)I; if (i < n) y[i] = x[i] + x[(unsigned)i]; }
// k.cu:32: the last blocks read none but the first 1,048,579 elements of 'x
__global__ void read_bytes(const float* x, float* y, long long n) { long long i = (long long)I;
    if (i < n) y[i] = *(const float*)((const char*)x + 4 * (unsigned)i); }
// ...write nothing to 'y'
__global__ void nothing(const float* x, float* y, long long n) {
    int m = n; long long i = (long long)I; if (i < m) y[i] = x[i] + 1; }
