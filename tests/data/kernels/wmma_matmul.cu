// c = a @ b on tensor cores through wmma: half inputs, float sums. A warp computes a tile of 16 x 16 (CUDA C++
// Programming Guide, Warp matrix functions).
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

__global__ void wmma_matmul(const half* a, const half* b, float* c, int m, int n, int k) {
    const int row = 16 * blockIdx.y, col = 16 * (blockIdx.x * blockDim.y + threadIdx.y);
    if (col >= n) return;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a_frag;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b_frag;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c_frag;
    wmma::fill_fragment(c_frag, 0.0f);
    for (int i = 0; i < k; i += 16) {
        wmma::load_matrix_sync(a_frag, a + row * k + i, k);
        wmma::load_matrix_sync(b_frag, b + i * n + col, n);
        wmma::mma_sync(c_frag, a_frag, b_frag, c_frag);
    }
    wmma::store_matrix_sync(c + row * n + col, c_frag, n, wmma::mem_row_major);
}
