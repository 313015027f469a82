// Loads of packs by their address.
#pragma once
#include "pack.cuh"

template <int n> __device__ __forceinline__ PackOf<n> pack_at(const scalar_t* p) {
    return *reinterpret_cast<const PackOf<n>*>(p);
}
