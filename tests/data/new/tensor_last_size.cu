__global__ void nchw(const float* x, const float* b, float* y, int c, int hw) {
    int plane = blockIdx.x, ch = plane % c;
    for (int i = threadIdx.x; i < hw; i += blockDim.x) y[plane * hw + i] = x[plane * hw + i] + b[ch];
}
torch::Tensor f(torch::Tensor x, torch::Tensor b) {
    auto y = torch::empty_like(x);
    int n = x.size(0), c = x.size(1), hw = x.size(-1);
    nchw<<<n * c, 256>>>(x.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), c, hw);
    return y;
}
