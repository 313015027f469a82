// Rotary position embedding as the first paper, GPT-J and Meta's Llama have it: element 2 i of a head is turned with
// element 2 i + 1. common/rope.cuh says how.
//
// scalar_t is float, __half or __nv_bfloat16 (-Dscalar_t=...); the arithmetic is float32 in all three.
#include "common/rope.cuh"

extern "C" __global__ void rope_interleaved_plain(const scalar_t* __restrict__ x, const scalar_t* __restrict__ cos,
                                                  const scalar_t* __restrict__ sin, scalar_t* __restrict__ y, int heads,
                                                  int half) {
    rope_pairs<Interleaved>(x, cos, sin, y, heads, half);
}

// Two packs of a head a thread.
extern "C" __global__ void rope_interleaved_vec(const scalar_t* __restrict__ x, const scalar_t* __restrict__ cos,
                                                const scalar_t* __restrict__ sin, scalar_t* __restrict__ y,
                                                int tokens, int heads, int half) {
    rope_packs<Interleaved>(x, cos, sin, y, tokens, heads, half);
}
