// cooperative_groups::inclusive_scan and exclusive_scan on tiles and on coalesced groups.
#pragma once
#include "../cooperative_groups.h"
#include "reduce.h"

namespace cooperative_groups {

template <class Group, class T, class Combine>
T inclusive_scan(const Group& group, T value, Combine combine, CUDALAB_PLACE) {
    const unsigned rank = group.thread_rank();
    for (unsigned by = 1; by < group.size(); by *= 2) {
        const T other = group.shfl_up(value, by, file, line);
        if (rank >= by) value = combine(other, value);
    }
    return value;
}
template <class Group, class T> T inclusive_scan(const Group& group, T value, CUDALAB_PLACE) {
    return inclusive_scan(group, value, plus<T>(), file, line);
}
// The first thread gets T{}.
template <class Group, class T, class Combine>
T exclusive_scan(const Group& group, T value, Combine combine, CUDALAB_PLACE) {
    const T before = group.shfl_up(inclusive_scan(group, value, combine, file, line), 1, file, line);
    return group.thread_rank() ? before : T{};
}
template <class Group, class T> T exclusive_scan(const Group& group, T value, CUDALAB_PLACE) {
    return exclusive_scan(group, value, plus<T>(), file, line);
}

}  // namespace cooperative_groups
