// y = x / |x| in one cooperative launch: partial sums, a barrier of the whole grid, then the scaling.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

__global__ void normalise(float* y, const float* x, float* partial, int n) {
    cg::grid_group grid = cg::this_grid();
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    __shared__ float sums[32];

    float sum = 0.0f;
    for (int i = grid.thread_rank(); i < n; i += grid.size()) sum += x[i] * x[i];
    sum = cg::reduce(warp, sum, cg::plus<float>());
    if (warp.thread_rank() == 0) sums[warp.meta_group_rank()] = sum;
    block.sync();
    if (block.thread_rank() == 0) {
        for (int w = 1; w < warp.meta_group_size(); w++) sums[0] += sums[w];
        partial[blockIdx.x] = sums[0];
    }
    grid.sync();

    float total = 0.0f;
    for (int b = 0; b < gridDim.x; b++) total += partial[b];
    for (int i = grid.thread_rank(); i < n; i += grid.size()) y[i] = x[i] * rsqrtf(total);
}
