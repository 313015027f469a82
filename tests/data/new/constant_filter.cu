constexpr int KW = 3;
namespace img { __constant__ float filt[KW][KW]; __constant__ int bias; }
using namespace img;
__global__ void conv2d(const float* __restrict__ img, float* __restrict__ out, int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float acc = bias;
    for (int dy = 0; dy < KW; ++dy)
        for (int dx = 0; dx < KW; ++dx) {
            int yy = min(max(y + dy - 1, 0), height - 1), xx = min(max(x + dx - 1, 0), width - 1);
            acc += filt[dy][dx] * img[yy * width + xx];
        }
    out[y * width + x] = acc;
}
