// A filter of three points whose weights the host sets.
__constant__ float weights[3];
static __constant__ int shift = 1;
namespace params {
__constant__ double scale = 1.0, bias = 0.0;
struct Options { float low, high; };
__constant__ Options options = {-1e30f, 1e30f};
}  // namespace params

__global__ void filter(float* y, const float* x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0;
    for (int k = 0; k < 3; ++k) {
        const int j = i + k - shift;
        if (j >= 0 && j < n) sum += weights[k] * x[j];
    }
    sum = float(params::scale * sum + params::bias);
    y[i] = fminf(fmaxf(sum, params::options.low), params::options.high);
}
