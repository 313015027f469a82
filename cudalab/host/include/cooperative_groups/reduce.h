// cooperative_groups::reduce on tiles and on coalesced groups.
#pragma once
#include "../cooperative_groups.h"

namespace cooperative_groups {

#ifndef CUDALAB_GROUP_OPERATORS
#define CUDALAB_GROUP_OPERATORS
template <class T = void> struct plus { template <class A> A operator()(A a, A b) const { return a + b; } };
template <class T = void> struct less { template <class A> A operator()(A a, A b) const { return b < a ? b : a; } };
template <class T = void> struct greater { template <class A> A operator()(A a, A b) const { return a < b ? b : a; } };
template <class T = void> struct bit_and { template <class A> A operator()(A a, A b) const { return a & b; } };
template <class T = void> struct bit_or { template <class A> A operator()(A a, A b) const { return a | b; } };
template <class T = void> struct bit_xor { template <class A> A operator()(A a, A b) const { return a ^ b; } };
#endif

template <unsigned width, class Parent, class T, class Combine>
T reduce(const thread_block_tile<width, Parent>& tile, T value, Combine combine, CUDALAB_PLACE) {
    for (unsigned with = width / 2; with; with /= 2) value = combine(value, tile.shfl_xor(value, with, file, line));
    return value;
}
template <class T, class Combine> T reduce(const coalesced_group& group, T value, Combine combine, CUDALAB_PLACE) {
    T result = group.shfl(value, 0, file, line);
    for (unsigned i = 1; i < group.size(); ++i) result = combine(result, group.shfl(value, int(i), file, line));
    return result;
}

}  // namespace cooperative_groups
