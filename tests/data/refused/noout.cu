__global__ void f(const float* x, int n) {}
