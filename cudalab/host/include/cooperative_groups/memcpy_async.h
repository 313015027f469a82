// cooperative_groups::memcpy_async: the threads of a group share a copy, which lands at wait() or wait_prior().
#pragma once
#include "../../async_copies.h"
#include "../cooperative_groups.h"
#include "../cuda/aligned_size"

namespace cooperative_groups {

template <class Group, class T, class Size>
void memcpy_async(const Group& group, T* to, const T* from, const Size& bytes, CUDALAB_PLACE) {
    using shape = cuda::cudalab_shape<T, Size>;
    cudalab::copy_share(to, from, size_t(bytes), shape::align, shape::whole, unsigned(group.thread_rank()),
                        unsigned(group.size()), file, line);
    cudalab::running->copies().commit();
}
// Counts of elements; the smaller one is copied.
template <class Group, class T, class To, class From>
void memcpy_async(const Group& group, T* to, const To& to_count, const T* from, const From& from_count, CUDALAB_PLACE) {
    const size_t count = size_t(to_count) < size_t(from_count) ? size_t(to_count) : size_t(from_count);
    cudalab::copy_share(to, from, count * sizeof(T), cuda::cudalab_shape<T, To>::align, false, unsigned(group.thread_rank()),
                        unsigned(group.size()), file, line);
    cudalab::running->copies().commit();
}
template <unsigned prior, class Group> void wait_prior(const Group& group, CUDALAB_PLACE) {
    cudalab::running->copies().wait_prior(prior);
    group.sync(file, line);
}
template <class Group> void wait(const Group& group, CUDALAB_PLACE) { wait_prior<0>(group, file, line); }

}  // namespace cooperative_groups
