template <typename T, int BLOCK>
__global__ void f(const T* x, T* y, float q, int n) { y[0] = q * x[0]; }
template __global__ void f<double, 128>(const double*, double*, float, int);
template __global__ void f<float, 64>(const float*, float*, float, int);
