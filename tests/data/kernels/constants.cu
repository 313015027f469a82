// 3 x 3 filter of an image whose border is repeated; the weights are in constant memory, as NVIDIA's sample
// convolutionSeparable has them.
__constant__ float filter[9];

__global__ void filter3x3(float* out, const float* image, int height, int width) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float sum = 0.0f;
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++) {
            const int row = min(max(y + dy, 0), height - 1), col = min(max(x + dx, 0), width - 1);
            sum += filter[3 * (dy + 1) + dx + 1] * image[row * width + col];
        }
    out[y * width + x] = sum;
}
