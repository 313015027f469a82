// Matrix products by <mma.h>: shared tiles, and what users do with the elements of a fragment.
#include <mma.h>
using namespace nvcuda;

// c = relu(a b + bias), a row-major m x k, b row-major k x n; four warps of a block share tiles of 32 x 32.
__global__ void matmul(const half* a, const half* b, const float* bias, float* c, int m, int n, int k) {
    __shared__ alignas(32) half left[32][16 + 16], right[16][32 + 16];
    __shared__ alignas(32) float out[4][16][16];
    const int warp = threadIdx.x / 32, row = blockIdx.y * 32, column = blockIdx.x * 32;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    for (int step = 0; step < k; step += 16) {
        for (int i = threadIdx.x; i < 32 * 16; i += blockDim.x) {
            const int r = row + i / 16, s = step + i % 16;
            left[i / 16][i % 16] = r < m && s < k ? a[r * k + s] : __float2half(0.0f);
        }
        for (int i = threadIdx.x; i < 16 * 32; i += blockDim.x) {
            const int s = step + i / 32, q = column + i % 32;
            right[i / 32][i % 32] = s < k && q < n ? b[s * n + q] : __float2half(0.0f);
        }
        __syncthreads();  // FILLED
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> x;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> y;
        wmma::load_matrix_sync(x, &left[warp / 2 * 16][0], 32);
        wmma::load_matrix_sync(y, &right[0][warp % 2 * 16], 48);
        wmma::mma_sync(sum, x, y, sum);
        __syncthreads();  // USED
    }
    wmma::store_matrix_sync(&out[warp][0][0], sum, 16, wmma::mem_row_major);
    __syncwarp();  // STORED
    for (int i = threadIdx.x % 32; i < 256; i += 32) {
        const int r = row + warp / 2 * 16 + i / 16, q = column + warp % 2 * 16 + i % 16;
        if (r < m && q < n) c[r * n + q] = fmaxf(out[warp][i / 16][i % 16] + bias[q], 0.0f);
    }
}

// Operands are scaled and clipped as they are; the sum is rounded to another type, element by element.
__global__ void scaled(const half* a, const half* b, half* d) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> x;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> y;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fragment<wmma::accumulator, 16, 16, 16, half> rounded;
    wmma::fill_fragment(sum, 0.0f);
    wmma::load_matrix_sync(x, a, 16);
    wmma::load_matrix_sync(y, b, 16);
    for (int i = 0; i < x.num_elements; ++i) x.x[i] = x.x[i] * __float2half(2.0f);
    for (int i = 0; i < y.num_elements; ++i) y.x[i] = __hmax(y.x[i], __float2half(0.0f));
    wmma::mma_sync(sum, x, y, sum);
    for (int i = 0; i < sum.num_elements; ++i) rounded.x[i] = __float2half(sum.x[i]);
    wmma::store_matrix_sync(d, rounded, 16, wmma::mem_row_major);
}

__global__ void diverges(const half* a, float* d) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> x;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> y;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    wmma::load_matrix_sync(x, a, 16);
    wmma::load_matrix_sync(y, a, 16);
    if (threadIdx.x % 2) wmma::mma_sync(sum, x, y, sum);
    else __syncwarp(0x55555555);
    wmma::store_matrix_sync(d, sum, 16, wmma::mem_row_major);
}
