static __global__ void encoder(float* out, const int* inp, const float* wte, const float* wpe, int B, int T,
                               int C) {}
