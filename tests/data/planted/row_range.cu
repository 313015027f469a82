// The largest and the least value of each row: a block of 200 threads a row, whose last warp has 8. Shuffles read the lanes
// that do not exist, too; what they give is not used.
#include <math_constants.h>
extern "C" __global__ void row_range(const float* x, float* y, int cols) {
    __shared__ float tops[7], leasts[7];
    const int t = threadIdx.x, lane = t % 32, lanes = min(32, 200 - t / 32 * 32);
    x += (long long)blockIdx.x * cols;
    float top = -CUDART_INF_F, least = CUDART_INF_F;
    for (int j = t; j < cols; j += 200) top = fmaxf(top, x[j]), least = fminf(least, x[j]);
    for (int by = 16; by > 0; by /= 2) {
        const float other_top = __shfl_down_sync(0xffffffffu, top, by);
        const float other_least = __shfl_down_sync(0xffffffffu, least, by);
        if (lane + by < lanes) top = fmaxf(top, other_top);
        if (lane + by < lanes) least = fminf(least, other_least);
    }
    if (lane == 0) tops[t / 32] = top, leasts[t / 32] = least;
    __syncthreads();
    if (t >= 7) return;
    top = tops[t], least = leasts[t];
    for (int by = 4; by > 0; by /= 2) {
        const float other_top = __shfl_down_sync(0x7fu, top, by), other_least = __shfl_down_sync(0x7fu, least, by);
        if (t + by < 7) top = fmaxf(top, other_top), least = fminf(least, other_least);
    }
    if (t == 0) y[blockIdx.x * 2ll] = top, y[blockIdx.x * 2ll + 1] = least;
}
