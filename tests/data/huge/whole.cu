// Whole numbers beside a large output: of a scatter nobody knows which elements its last blocks write.
#define I blockIdx.x * blockDim.x + threadIdx.x
__global__ void wide(const float* x, const int* k, float* y, long long n) {
    long long i = (long long)I;
    if (i < n) y[i] = x[i] + k[i];
}
__global__ void narrow(const float* x, const int* k, float* y, long long n) {
    unsigned i = I;
    if (i < n) y[i] = x[i] + k[i];
}
__global__ void scatter(const float* x, const int* k, float* y, long long n) {
    long long i = (long long)I;
    if (i < n) y[k[i]] = x[i];
}
