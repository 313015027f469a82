// The index of the largest value of each row, the first of equal ones: a block a row.
#include <math_constants.h>
extern "C" __global__ void argmax_row(const float* x, int* y, int cols) {
    __shared__ float values[128];
    __shared__ int places[128];
    const int t = threadIdx.x;
    float best = -CUDART_INF_F;
    int at = 0x7fffffff;
    for (int j = t; j < cols; j += 128) {
        const float v = x[(size_t)blockIdx.x * cols + j];
        if (v > best || (v == best && j < at)) best = v, at = j;
    }
    values[t] = best, places[t] = at;
    __syncthreads();
    for (int half = 64; half > 0; half /= 2) {
        if (t < half) {
            const float other = values[t + half];
            const int place = places[t + half];
            if (other > values[t] || (other == values[t] && place < places[t])) values[t] = other, places[t] = place;
        }
        __syncthreads();
    }
    if (t == 0) y[blockIdx.x] = places[0];
}
