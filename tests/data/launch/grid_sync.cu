// y = x / sum(x): all blocks sum, the grid waits for itself, all blocks divide.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

__global__ void normalize(float* y, float* partial, const float* x, int n) {
    auto grid = cg::this_grid();
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    __shared__ float sums[32];
    float sum = 0;
    for (unsigned long long i = grid.thread_rank(); i < n; i += grid.size()) sum += x[i];
    sum = cg::reduce(warp, sum, cg::plus<float>());
    if (warp.thread_rank() == 0) sums[warp.meta_group_rank()] = sum;
    block.sync();
    if (block.thread_rank() == 0) {
        float all = 0;
        for (unsigned i = 0; i < warp.meta_group_size(); ++i) all += sums[i];
        partial[blockIdx.x] = all;
    }
    grid.sync();
    float total = 0;
    for (unsigned i = 0; i < gridDim.x; ++i) total += partial[i];
    for (unsigned long long i = grid.thread_rank(); i < n; i += grid.num_threads()) y[i] = x[i] / total;
}

// Some rounds of a stencil in one launch: two barriers a round.
__global__ void smooth(float* a, float* b, int n, int rounds) {
    cg::grid_group grid = cg::this_grid();
    for (int round = 0; round < rounds; ++round) {
        for (int i = grid.thread_rank(); i < n; i += grid.size())
            b[i] = 0.25f * a[(i + n - 1) % n] + 0.5f * a[i] + 0.25f * a[(i + 1) % n];
        cg::sync(grid);
        for (int i = grid.thread_rank(); i < n; i += grid.size()) a[i] = b[i];
        grid.sync();
    }
}
