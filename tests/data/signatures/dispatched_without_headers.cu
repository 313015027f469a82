template <typename scalar_t>
__global__ void twice(const scalar_t* x, scalar_t* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + x[i];
}
void run(torch::Tensor x, torch::Tensor y) {
    AT_DISPATCH_REDUCED_FLOATING_TYPES(x.scalar_type(), "twice", [&] {
        twice<scalar_t><<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), x.numel()); });
}
