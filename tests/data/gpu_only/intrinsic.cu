// y = 2 x, after a pause; and functions that are no part of C++.
__global__ void twice(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    __nanosleep(100);
    unsigned both = __vaddss2(0x00010001u, 0x00010001u);
    if (i < n) y[i] = (both & 0xffff) * x[i];
}
