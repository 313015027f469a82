template <typename T> __global__ void f(const T* x, T* y, int n) {}
