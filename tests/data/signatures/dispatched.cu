#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>
template <typename T>
__global__ void relu(const T* x, T* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] > T(0) ? x[i] : T(0);
}
torch::Tensor run(torch::Tensor x) {
    auto y = torch::empty_like(x);
    AT_DISPATCH_ALL_TYPES_AND2(at::kHalf, at::ScalarType::BFloat16, x.scalar_type(), "relu", ([&] {
        relu<<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), x.numel()); }));
    return y;
}
