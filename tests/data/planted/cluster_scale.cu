// Rows divided by their sum of magnitudes. A cluster of two blocks has a row; each adds what the other has found.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void cluster_scale(const float* x, float* y, int cols) {
    __shared__ float s[64];
    __shared__ float part;
    cg::cluster_group cluster = cg::this_cluster();
    const int t = threadIdx.x, rank = cluster.block_rank();
    x += (long long)(blockIdx.x / 2) * cols, y += (long long)(blockIdx.x / 2) * cols;
    float sum = 0;
    for (int j = rank * 64 + t; j < cols; j += 128) sum += fabsf(x[j]);
    s[t] = sum;
    __syncthreads();
    for (int half = 32; half > 0; half /= 2) {
        if (t < half) s[t] += s[t + half];
        __syncthreads();
    }
    if (t == 0) part = s[0];
    cluster.sync();
    const float whole = part + *cluster.map_shared_rank(&part, rank ^ 1);
    cluster.sync();
    if (t == 0) part = 0;
    for (int j = rank * 64 + t; j < cols; j += 128) y[j] = x[j] / whole;
}
