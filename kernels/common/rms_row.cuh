// RMSNorm of one row (reduced_row.cuh): v * weight / sqrt(mean of the squares of v + eps). What derives from it says
// where v comes from.
#pragma once
#include "reduced_row.cuh"

__device__ __forceinline__ float inverse_rms(float squares, int cols, float eps) { return rsqrtf(squares / cols + eps); }

struct RmsRow {
    const scalar_t* weight;
    scalar_t* y;
    int cols;  // of the whole row
    float eps;

    static constexpr int arrays = 1;
    using Value = float;
    __device__ __forceinline__ static float joined(float a, float b) { return a + b; }
    template <int n> __device__ __forceinline__ float of(const float* v) const {
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < n; ++i) sum = fmaf(v[i], v[i], sum);
        return sum;
    }
    __device__ __forceinline__ float result(float squares) const { return inverse_rms(squares, cols, eps); }
    template <int width, int next>
    __device__ __forceinline__ void write(int at, int cols, const float* v, float scale) const {
        const int first = place<width>(at);
        if (first >= cols) return;
        const PackOf<width> w = *reinterpret_cast<const PackOf<width>*>(weight + first);
        PackOf<width> out;
#pragma unroll
        for (int k = 0; k < width; ++k) out.v[k] = scalar_t(v[k] * scale * float(w.v[k]));
        *reinterpret_cast<PackOf<width>*>(y + first) = out;
    }
};
