__global__ void f(const float* x, float** rows, int n) {}
