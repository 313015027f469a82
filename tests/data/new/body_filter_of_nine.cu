__global__ void conv3x3(const float* in, const float* w, float* out, int H, int W) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= W || y >= H) return;
    float s = 0;
    for (int i = -1; i <= 1; ++i)
        for (int j = -1; j <= 1; ++j) {
            int r = y + i, c = x + j;
            if (r >= 0 && r < H && c >= 0 && c < W) s += in[r * W + c] * w[(i + 1) * 3 + (j + 1)];
        }
    out[y * W + x] = s;
}
