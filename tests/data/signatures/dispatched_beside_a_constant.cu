#include <torch/extension.h>
template <typename scalar_t>
__global__ void mx(const scalar_t* x, scalar_t* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float m = -FLT_MAX;
    if (i < n) y[i] = scalar_t(fmaxf(m, float(x[i])));
}
void run(torch::Tensor x, torch::Tensor y) {
    AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "i", [&] {
    mx<scalar_t><<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), x.numel()); });
}
