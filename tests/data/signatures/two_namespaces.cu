namespace ns {
namespace {
template <int BLOCK, typename T = float>
__global__ void __launch_bounds__(BLOCK) row_sum(const T* x, T* y, int rows, int cols) {}
}
}
