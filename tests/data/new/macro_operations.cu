#define UNARY(NAME, EXPR)                                                     \
    extern "C" __global__ void NAME(const float* x, float* y, int n) {        \
        int i = blockIdx.x * blockDim.x + threadIdx.x;                        \
        if (i < n) {                                                          \
            float v = x[i];                                                   \
            y[i] = (EXPR);                                                    \
        }                                                                     \
    }
UNARY(negate, -v)
UNARY(square, v* v)
