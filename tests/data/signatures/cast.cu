#include <cuda_fp16.h>
__global__ void cast(const __half* in, nv_bfloat16* out, int n) {}
