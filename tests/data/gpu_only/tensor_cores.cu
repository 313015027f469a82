// y = 2 x by tensor cores: 16 x 16 tiles times two times the identity.
#include <mma.h>
using namespace nvcuda;

__global__ void twice(const float* x, float* y, int n) {
    __shared__ half a[256], b[256];
    for (int i = threadIdx.x; i < 256; i += 32) {
        a[i] = __float2half(blockIdx.x * 256 + i < n ? x[blockIdx.x * 256 + i] : 0.0f);
        b[i] = __float2half(i / 16 == i % 16 ? 2.0f : 0.0f);
    }
    __syncwarp();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> right;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    wmma::load_matrix_sync(left, a, 16);
    wmma::load_matrix_sync(right, b, 16);
    wmma::mma_sync(sum, left, right, sum);
    wmma::store_matrix_sync(y + blockIdx.x * 256, sum, 16, wmma::mem_row_major);
}
