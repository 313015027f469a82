// Rows of a table by 64-bit indices: a warp a row.
extern "C" __global__ void embedding_gather(const float* table, const long long* index, float* y, long long count, int width) {
    const long long i = (long long)blockIdx.x * blockDim.y + threadIdx.y;
    if (i >= count) return;
    const float* row = table + index[i] * width;
    for (int j = threadIdx.x; j < width; j += 32) y[i * width + j] = row[j];
}
