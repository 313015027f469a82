#define KERNEL_LOOP(i, n) for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += blockDim.x * gridDim.x)
#define DEFINE_BINARY(op, T, sym) \
__global__ void op##_##T(int n, const T *a, const T *b, T *out) \
{ \
    KERNEL_LOOP(i, n) { out[i] = a[i] sym b[i]; } \
}
DEFINE_BINARY(add, float, +)
DEFINE_BINARY(add, double, +)
