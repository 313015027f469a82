// <mma.h> in every type.
#include <mma.h>
using namespace nvcuda;

// One tile by one warp, of any shape, type and layout: d = alpha a b + beta c.
template <int m, int n, int k, class T, class S, class D, class A, class B>
__device__ void tile(const S* a, const S* b, const D* c, D* d, D alpha, D beta) {
    wmma::fragment<wmma::matrix_a, m, n, k, T, A> x;
    wmma::fragment<wmma::matrix_b, m, n, k, T, B> y;
    wmma::fragment<wmma::accumulator, m, n, k, D> sum, more;
    constexpr bool a_rows = std::is_same<A, wmma::row_major>::value, b_rows = std::is_same<B, wmma::row_major>::value;
    wmma::load_matrix_sync(x, a, a_rows ? k : m);
    wmma::load_matrix_sync(y, b, b_rows ? n : k);
    wmma::load_matrix_sync(more, c, n, wmma::mem_row_major);
    wmma::fill_fragment(sum, D(0));
    wmma::mma_sync(sum, x, y, sum);
    for (int i = 0; i < sum.num_elements; ++i) sum.x[i] = alpha * sum.x[i] + beta * more.x[i];
    wmma::store_matrix_sync(d, sum, m, wmma::mem_col_major);
}
#define TILE(name, m, n, k, T, S, D, A, B)                                                                       \
    __global__ void name(const S* a, const S* b, const D* c, D* d, D alpha, D beta) {                            \
        tile<m, n, k, T, S, D, wmma::A, wmma::B>(a, b, c, d, alpha, beta);                                       \
    }
TILE(half_rr, 16, 16, 16, half, half, float, row_major, row_major)
TILE(half_cc, 32, 8, 16, half, half, float, col_major, col_major)
TILE(half_half, 8, 32, 16, half, half, half, row_major, col_major)
TILE(bfloat16_rc, 16, 16, 16, __nv_bfloat16, __nv_bfloat16, float, row_major, col_major)
TILE(bfloat16_cr, 32, 8, 16, __nv_bfloat16, __nv_bfloat16, float, col_major, row_major)
TILE(int8, 16, 16, 16, signed char, signed char, int, row_major, col_major)
TILE(uint8, 8, 32, 16, unsigned char, unsigned char, int, row_major, row_major)
TILE(doubles, 8, 8, 4, double, double, double, row_major, col_major)

__global__ void tf32(const float* a, const float* b, float* d) {
    wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> x;
    wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::col_major> y;
    wmma::fragment<wmma::accumulator, 16, 16, 8, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    wmma::load_matrix_sync(x, a, 8);
    wmma::load_matrix_sync(y, b, 8);
    for (int i = 0; i < x.num_elements; ++i) x.x[i] = wmma::__float_to_tf32(x.x[i]);
    for (int i = 0; i < y.num_elements; ++i) y.x[i] = wmma::__float_to_tf32(y.x[i]);
    wmma::mma_sync(sum, x, y, sum);
    wmma::store_matrix_sync(d, sum, 16, wmma::mem_row_major);
}
