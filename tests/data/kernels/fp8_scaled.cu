// Cast to fp8 (e4m3) with a scale per tensor, four elements at a time, as inference engines store activations.
#include <cuda_fp8.h>

__global__ void cast_e4m3(__nv_fp8_e4m3* out, const float* in, const float* scale, int n) {
    const float s = *scale;
    const int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i + 4 <= n) {
        const float4 v = *reinterpret_cast<const float4*>(in + i);
        *reinterpret_cast<__nv_fp8x4_e4m3*>(out + i) =
            __nv_fp8x4_e4m3(make_float4(v.x * s, v.y * s, v.z * s, v.w * s));
    } else {
        for (int j = i; j < n; j++) out[j] = __nv_fp8_e4m3(in[j] * s);
    }
}
