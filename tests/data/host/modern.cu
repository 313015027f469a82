// Cooperative groups, votes, integer functions and the rest of the mathematics: what newer kernels use.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

__global__ void block_sums(float* y, const float* x, int n) {
    __shared__ float partial[32];
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<16>(block);
    const unsigned i = cg::this_grid().thread_rank();
    const float sum = cg::reduce(tile, i < n ? x[i] : 0.0f, cg::plus<float>());
    if (tile.thread_rank() == 0) partial[tile.meta_group_rank()] = sum;
    block.sync();
    if (block.thread_rank() == 0) {
        float total = 0;
        for (unsigned t = 0; t < tile.meta_group_size(); ++t) total += partial[t];
        y[blockIdx.x] = total;
    }
}

__global__ void tiles(int* y, const int* x) {
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    const unsigned i = threadIdx.x;
    y[i] = tile.shfl_down(x[i], 1);
    y[64 + i] = tile.ballot(x[i] % 3 == 0);
    y[128 + i] = cg::reduce(tile, x[i], cg::greater<int>());
    int same = 0;
    y[192 + i] = int(__match_all_sync(~0u, x[i] / 32, &same)) + same;
    y[256 + i] = int(__match_all_sync(~0u, x[i], &same)) + same;
}

// Nothing may be taken for granted of what static shared memory holds when a block begins.
__global__ void unwritten(float* y) {
    __shared__ float sum;
    if (y[blockIdx.x] != 0) sum = 0;
    __syncthreads();
    y[blockIdx.x] = sum;
    __syncthreads();
    sum = 1;
}

__global__ void integers(unsigned* y, unsigned a, unsigned b) {
    unsigned i = 0;
    y[i++] = __byte_perm(a, b, 0x7531);
    y[i++] = __byte_perm(a, b, 0x00b8);
    y[i++] = __funnelshift_l(a, b, 8);
    y[i++] = __funnelshift_r(a, b, 8);
    y[i++] = __funnelshift_lc(a, b, 40);
    y[i++] = __dp4a(a, b, 7u);
    y[i++] = __dp4a(int(a), int(b), 7);
    y[i++] = unsigned(__brevll(a) >> 32);
    y[i++] = __sad(-3, 4, 5u);
    y[i++] = __hadd(-3, 4) + __rhadd(3, 4);
    y[i++] = unsigned(__umul64hi(1ull << 63, 6));
    y[i++] = __mul24(-3, 5);
    y[i++] = umin(a, b) + unsigned(llmax(-1, 2));
}

__global__ void inverses(double* y, const double* p, int n) {
    const int i = threadIdx.x;
    if (i < n) y[i] = normcdfinv(p[i]), y[n + i] = erfinv(2 * p[i] - 1);
}

__global__ void __launch_bounds__(128) vectors(float4* y, const float4* x, int n) {
    const int i = threadIdx.x;
    float4 v = x[i], w = {1, 2, 3, 4}, zero = {};
    v.x += w.x + zero.w;
    if (i < n) y[i] = v;
}
