// Rotary position embedding as Llama of Hugging Face and GPT-NeoX have it: element i of a head is turned with element
// half + i. common/rope.cuh says how.
//
// scalar_t is float, __half or __nv_bfloat16 (-Dscalar_t=...); the arithmetic is float32 in all three.
#include "common/rope.cuh"

extern "C" __global__ void rope_plain(const scalar_t* __restrict__ x, const scalar_t* __restrict__ cos,
                                      const scalar_t* __restrict__ sin, scalar_t* __restrict__ y, int heads, int half) {
    rope_pairs<Halves>(x, cos, sin, y, heads, half);
}

// Two packs of a head a thread.
extern "C" __global__ void rope_vec(const scalar_t* __restrict__ x, const scalar_t* __restrict__ cos,
                                    const scalar_t* __restrict__ sin, scalar_t* __restrict__ y, int tokens,
                                    int heads, int half) {
    rope_packs<Halves>(x, cos, sin, y, tokens, heads, half);
}
