#include <cuComplex.h>
#include <cuda/std/complex>
#include <thrust/complex.h>

__global__ void singles(cuFloatComplex* y, float* length, const cuComplex* a, const cuComplex* b, int n) {
    const int i = threadIdx.x;
    if (i >= n) return;
    y[i] = cuCaddf(a[i], b[i]), y[n + i] = cuCsubf(a[i], b[i]), y[2 * n + i] = cuCmulf(a[i], b[i]);
    y[3 * n + i] = cuCdivf(a[i], b[i]), y[4 * n + i] = cuConjf(a[i]), y[5 * n + i] = cuCfmaf(a[i], b[i], a[i]);
    y[6 * n + i] = make_cuComplex(cuCimagf(a[i]), cuCrealf(a[i]));
    length[i] = cuCabsf(a[i]);
}
__global__ void doubles(cuDoubleComplex* y, double* length, const cuDoubleComplex* a, const cuDoubleComplex* b, int n) {
    const int i = threadIdx.x;
    if (i >= n) return;
    y[i] = cuCadd(a[i], b[i]), y[n + i] = cuCsub(a[i], b[i]), y[2 * n + i] = cuCmul(a[i], b[i]);
    y[3 * n + i] = cuCdiv(a[i], b[i]), y[4 * n + i] = cuConj(a[i]), y[5 * n + i] = cuCfma(a[i], b[i], a[i]);
    y[6 * n + i] = make_cuDoubleComplex(cuCimag(a[i]), cuCreal(a[i]));
    length[i] = cuCabs(a[i]);
}
__global__ void classes(thrust::complex<float>* y, const thrust::complex<float>* a, const cuda::std::complex<float>* b) {
    const int i = threadIdx.x;
    y[i] = a[i] * thrust::complex<float>(b[i].real(), b[i].imag()) + thrust::exp(a[i]) * cuda::std::abs(b[i]);
}
