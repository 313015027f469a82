// The larger of x and 0, as the sum x * Phi(x) = max(x, 0) - |x| * Phi(-|x|) needs it.
#pragma once

// max(x, 0), but NaN for NaN and for -inf, where the reference's product 0 * inf is NaN too; -0 stays -0.
__device__ __forceinline__ float positive_part(float x) { return x > 0.0f ? x : x * 0.0f; }
