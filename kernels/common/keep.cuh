// Advice to the L2 cache, for inputs that are read once.
#pragma once

// x, with the advice to L2 to keep what is read through it and to evict other lines first (evict_last). This is the
// builtin under libcu++'s cuda::associate_access_property, with the policy that createpolicy of PTX makes.
//
// Time saved on an H200, cold, although hardly a line is read twice; the cause is not verified:
//     gelu       1.5 % in float32, at 154 million elements; nothing where all data fits in L2
//     bias_gelu  0.9 % in float32, 1.7 % in bfloat16, at 32,768 x 4,096
//     transpose  1.5 % in float32, 1.7 % in bfloat16, at 16,384 x 8,192
//     softmax    3.5 % in float32, 1.4 % in bfloat16, at 32,768 x 4,096
//     layernorm  3 % in float32, 0.6 % in bfloat16, at 32,768 x 4,096
// The copy that sets the bench's ceiling uses it too, and also gains 1.5 % at 154 million elements.
template <class T> __device__ __forceinline__ const T* kept(const T* x) {
#if __CUDA_ARCH__ >= 800 && __CUDA_ARCH__ < 1000  // nvcc 13.0 fails to compile it for later architectures
    return static_cast<const T*>(__nv_associate_access_property(x, 0x14F0000000000000ull));
#else
    return x;
#endif
}
