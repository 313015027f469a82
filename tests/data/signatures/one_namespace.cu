namespace ns { struct A {}; __global__ void k(const float* x, float* y, int n) {} }
