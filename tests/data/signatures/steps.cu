__global__ void partial(const float* x, float* part, int n) {}
__global__ void total(const float* part, const int* m, double* out, int n) {}
