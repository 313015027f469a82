// Product of two spectra with a scale, as after an FFT (NVIDIA's sample simpleCUFFT).
#include <cuComplex.h>

__global__ void multiply_spectra(cuFloatComplex* a, const cuFloatComplex* b, int size, float scale) {
    const int threads = blockDim.x * gridDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < size; i += threads) {
        const cuFloatComplex product = cuCmulf(a[i], b[i]);
        a[i] = make_cuFloatComplex(scale * cuCrealf(product), scale * cuCimagf(product));
    }
}
