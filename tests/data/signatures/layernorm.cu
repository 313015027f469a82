__global__ void layernorm_forward_kernel3(float* __restrict__ out, float* __restrict__ mean, float* rstd,
    const float*  __restrict__ inp, const float*  __restrict__ weight, const float* bias, int N, int C) {}
