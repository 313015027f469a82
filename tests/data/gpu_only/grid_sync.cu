// y = 2 x in two steps, with a barrier of the whole grid between them.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__global__ void twice(const float* x, float* y, int n) {
    auto grid = cg::this_grid();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
    grid.sync();
    if (i < n) y[i] *= 2;
}
