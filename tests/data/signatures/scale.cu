__global__ void scale(float* data, float factor, int n) {}
