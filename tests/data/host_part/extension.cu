#include <torch/extension.h>
#include <c10/cuda/CUDAGuard.h>
#include <vector>
#define CHECK(x) TORCH_CHECK(x.is_cuda(), "{ on a GPU")
#define HD __host__ __device__
#ifdef SLOW
__global__ void twice(const float* x, float* y, int n) {
#else
__global__ void __launch_bounds__(256) twice(const float* x, float* y, int n) {
#endif
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.f;
    if (i < n) y[i] = sum + twofold(x[i], FLT_MAX) + __half2float(__half(1));
}
namespace {
constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }
struct Timer { cudaEvent_t start; };
template <int N> struct Tile { static constexpr int size = N; };
HD float twofold(float v, float most) { return v < most ? v + v : v; }
at::Tensor sum(const at::Tensor& x) { return x.sum(); }  // }
}
static cudaStream_t stream;
#ifndef CUDALAB
this is no C++ {
#endif
extern "C" void launch(const float* x, float* y, int n) {
#ifdef DEBUG
    printf("{");
#endif
    twice<<<ceil_div(n, 256), 256>>>(x, y, n);
    auto f = [=] __device__ (int i) { return R"({ )" + i; };
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("sum", &sum); }
