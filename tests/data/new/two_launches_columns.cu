// column sums of a matrix through a workspace
__global__ void colsum_stage1(const float* __restrict__ in, float* __restrict__ workspace, int rows, int cols, int rows_per_block)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= cols) return;
    int first = blockIdx.y * rows_per_block;
    float s = 0.0f;
    for (int r = first; r < min(first + rows_per_block, rows); ++r) s += in[r * cols + c];
    workspace[blockIdx.y * cols + c] = s;
}
__global__ void colsum_stage2(const float* __restrict__ workspace, float* __restrict__ out, int parts, int cols)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= cols) return;
    float s = 0.0f;
    for (int p = 0; p < parts; ++p) s += workspace[p * cols + c];
    out[c] = s;
}
