// The largest value of a row and the sum of the exponentials of all, for softmax and its logarithm.
//
// One pass computes both (Milakov and Gimelshein 2018), since a sum for one maximum can be rescaled to any other. No
// exponent is above 0, so nothing overflows.
#pragma once
#include "team.cuh"
#include "two.cuh"

// The largest value so far, and the sum of the exponentials in units of exp(top).
struct Running {
    float top = -INFINITY, sum = 0.0f;

    __device__ __forceinline__ void add(float v) {
        if (v > top) sum = fmaf(sum, expf(top - v), 1.0f), top = v;  // expf(-inf) is 0
        else if (v != -INFINITY) sum += expf(v - top);               // NaN takes this branch and stays
    }
    // The sum in units of exp(to), where to >= top.
    __device__ __forceinline__ float in_units_of(float to) const { return sum == 0.0f ? 0.0f : sum * expf(top - to); }
};

// exp(d). In 16 bits the error of the product, 2^-20 at most, disappears in the last rounding: 5 instructions instead
// of 8.
__device__ __forceinline__ float power(float d) { return sizeof(scalar_t) == 4 ? expf(d) : exp2f(d * 1.44269504f); }

template <int n> __device__ __forceinline__ float largest_of(const float* v) {
    float top = v[0];
#pragma unroll
    for (int i = 1; i < n; ++i) top = fmaxf(top, v[i]);
    return top;
}

// Replaces each v by exp(v - top) and returns their sum.
template <int n> __device__ __forceinline__ float to_powers(float* v, float top) {
    const float base = top == -INFINITY ? 0.0f : top;  // exp(-inf - base) is 0
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < n; ++i) sum += v[i] = power(v[i] - base);
    return sum;
}

// Takes n more values into account, which it replaces.
template <int n> __device__ __forceinline__ void extend(Running& mine, float* v) {
    const float top = fmaxf(mine.top, largest_of<n>(v));
    mine.sum = mine.in_units_of(top) + to_powers<n>(v, top);
    mine.top = top;
}

// The largest of 2 n elements; NaN if one is NaN.
template <int n, class Pair> __device__ __forceinline__ float largest_in(const Pair* pairs) {
    Pair top = pairs[0];
#pragma unroll
    for (int i = 1; i < n; ++i) top = __hmax2_nan(top, pairs[i]);
    return float(__hmax_nan(top.x, top.y));
}

// The square root of exp(v - top), at least 2^-75, for v of 16 bits: 4 instructions. The exponent is -75 times a number in
// [0, 1], so the compiler knows that the result is not subnormal and omits the instructions that handle subnormals. Its
// square may be subnormal, and is 0 for -inf. NaN gives 1.
__device__ __forceinline__ float root_of_power(float v, float top) {
    return exp2f(-75.0f * __saturatef((top - v) * (1.44269504f / 150)));
}

// The sum of exp(v - top) over 2 n elements v, of which `found` is the largest.
template <int n, class Pair> __device__ __forceinline__ float sum_of_powers(const Pair* pairs, float found, float top) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < n; ++i) {
        const float x = root_of_power(float(pairs[i].x), top), y = root_of_power(float(pairs[i].y), top);
        sum = fmaf(y, y, fmaf(x, x, sum));
    }
    if (found == -INFINITY) sum = 0.0f;  // no element but -inf
    return found < INFINITY ? sum : NAN;
}

// Combines the results of all warps of a team. One barrier is enough, since each warp brings a sum in units of its own
// maximum.
template <class Team> __device__ __forceinline__ Running over_warps(Running warp, Running* table) {
    const int n = Team::share(warp, table);
    Running all;
    all.top = over_table<Team, largest>(n, [table](int i) { return table[i].top; });
    all.sum = over_table<Team, total>(n, [table, top = all.top](int i) { return table[i].in_units_of(top); });
    return all;
}

// Combines the results of all threads of a team.
template <class Team> __device__ __forceinline__ Running over_threads(Running mine, Running* table) {
    Running warp;
    warp.top = over_lanes<largest>(mine.top, blockDim.x);
    warp.sum = over_lanes<total>(mine.in_units_of(warp.top), blockDim.x);
    return Team::several() ? over_warps<Team>(warp, table) : warp;
}
