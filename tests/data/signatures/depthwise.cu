// Depthwise convolution along the length, with a bias: what each channel has for weights is its own, of K elements.
#include <cuda_fp16.h>
#define K 5
__global__ void dwconv(const half* x, const half* w, const half* b, half* y, int channels, int length) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    int c = blockIdx.y, n = blockIdx.z;
    if (t >= length) return;
    const half* row = x + ((long long)n * channels + c) * length;
    float acc = __half2float(b[c]);
    for (int k = 0; k < K; k++) {
        int s = t + k - K / 2;
        if (s >= 0 && s < length) acc += __half2float(w[c * K + k]) * __half2float(row[s]);
    }
    y[((long long)n * channels + c) * length + t] = __float2half(acc);
}
