__global__ void argmax(const float* x, int* out, int rows, int cols) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float best = x[(size_t)row * cols];
    int at = 0;
    for (int c = 1; c < cols; c++) {
        float v = x[(size_t)row * cols + c];
        if (v > best || (isnan(v) && !isnan(best))) { best = v; at = c; }
    }
    out[row] = at;
}
