#include <mma.h>
using namespace nvcuda::wmma;
#define WMMA_M 16
#define WMMA_N 16
#define WMMA_K 16
// as in NVIDIA's blog: D = alpha * A B + beta * C; B column major
__global__ void wmma_example(half *a, half *b, float *c, float *d, int M, int N, int K, float alpha, float beta) {
   int warpM = (blockIdx.x * blockDim.x + threadIdx.x) / warpSize;
   int warpN = (blockIdx.y * blockDim.y + threadIdx.y);
   fragment<matrix_a, WMMA_M, WMMA_N, WMMA_K, half, row_major> a_frag;
   fragment<matrix_b, WMMA_M, WMMA_N, WMMA_K, half, col_major> b_frag;
   fragment<accumulator, WMMA_M, WMMA_N, WMMA_K, float> acc_frag;
   fragment<accumulator, WMMA_M, WMMA_N, WMMA_K, float> c_frag;
   fill_fragment(acc_frag, 0.0f);
   for (int i = 0; i < K; i += WMMA_K) {
      int aRow = warpM * WMMA_M;
      int bCol = warpN * WMMA_N;
      if (aRow < M && i < K && i < K && bCol < N) {
         load_matrix_sync(a_frag, a + aRow * K + i, K);
         load_matrix_sync(b_frag, b + bCol * K + i, K);
         mma_sync(acc_frag, a_frag, b_frag, acc_frag);
      }
   }
   int cRow = warpM * WMMA_M;
   int cCol = warpN * WMMA_N;
   if (cRow < M && cCol < N) {
      load_matrix_sync(c_frag, c + cRow * N + cCol, N, mem_row_major);
      for (int i = 0; i < c_frag.num_elements; i++) c_frag.x[i] = alpha * acc_frag.x[i] + beta * c_frag.x[i];
      store_matrix_sync(d + cRow * N + cCol, c_frag, N, mem_row_major);
   }
}
