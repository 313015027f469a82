// Packs: neighbouring elements that one load or store moves, up to 16 bytes, the widest access a thread has.
#pragma once

constexpr int WIDE = 16 / sizeof(scalar_t);  // elements of 16 bytes

template <int n> struct __align__(n * sizeof(scalar_t)) PackOf {
    static constexpr int width = n;
    scalar_t v[n];
};
using Pack = PackOf<WIDE>;

// Whether 16-byte accesses through these pointers are allowed. A slice such as x[1:] may start off a 16-byte boundary,
// where such an access faults.
template <class... T> __device__ __forceinline__ bool aligned16(const T*... pointers) {
    return ((... | (size_t)pointers) % sizeof(Pack)) == 0;
}
