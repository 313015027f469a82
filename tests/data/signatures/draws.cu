__global__ void draws(double* y, long long n, unsigned long long seed) {}
