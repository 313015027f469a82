// cooperative_groups::reduce on tiles.
#pragma once
#include "../cooperative_groups.h"

namespace cooperative_groups {

template <class T = void> struct plus { template <class A> A operator()(A a, A b) const { return a + b; } };
template <class T = void> struct less { template <class A> A operator()(A a, A b) const { return b < a ? b : a; } };
template <class T = void> struct greater { template <class A> A operator()(A a, A b) const { return a < b ? b : a; } };
template <class T = void> struct bit_and { template <class A> A operator()(A a, A b) const { return a & b; } };
template <class T = void> struct bit_or { template <class A> A operator()(A a, A b) const { return a | b; } };
template <class T = void> struct bit_xor { template <class A> A operator()(A a, A b) const { return a ^ b; } };

template <unsigned width, class Parent, class T, class Combine>
T reduce(const thread_block_tile<width, Parent>& tile, T value, Combine combine) {
    for (unsigned with = width / 2; with; with /= 2) value = combine(value, tile.shfl_xor(value, with));
    return value;
}

}  // namespace cooperative_groups
