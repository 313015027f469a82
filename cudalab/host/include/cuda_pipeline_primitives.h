// cp.async by CUDA's functions. A copy lands at the wait that guarantees it (async_copies.h).
#pragma once
#include "../async_copies.h"

inline void __pipeline_memcpy_async(void* shared, const void* global, size_t bytes, size_t zeros = 0, CUDALAB_PLACE) {
    cudalab::copy_few(shared, global, bytes, zeros, file, line);
}
inline void __pipeline_commit() { cudalab::running->copies().commit(); }
inline void __pipeline_wait_prior(size_t prior) { cudalab::running->copies().wait_prior(prior); }

// Barriers of the C interface (<cuda_awbarrier_primitives.h>).
using __mbarrier_t = cudalab::phase_barrier;
using __mbarrier_token_t = uint64_t;
inline uint32_t __mbarrier_maximum_count() { return uint32_t(cudalab::phase_barrier::most); }
inline void __mbarrier_init(__mbarrier_t* barrier, uint32_t expected, CUDALAB_PLACE) { barrier->init(expected, file, line); }
inline void __mbarrier_inval(__mbarrier_t*) {}
inline __mbarrier_token_t __mbarrier_arrive(__mbarrier_t* barrier, CUDALAB_PLACE) { return barrier->arrive(1, 0, file, line); }
inline __mbarrier_token_t __mbarrier_arrive_and_drop(__mbarrier_t* barrier, CUDALAB_PLACE) {
    return barrier->arrive(1, 1, file, line);
}
inline bool __mbarrier_test_wait(__mbarrier_t* barrier, __mbarrier_token_t token, CUDALAB_PLACE) {
    return barrier->ended(unsigned(token), file, line);
}
inline bool __mbarrier_test_wait_parity(__mbarrier_t* barrier, bool parity, CUDALAB_PLACE) {
    return barrier->ended_parity(parity, file, line);
}
inline void __pipeline_arrive_on(__mbarrier_t* barrier, CUDALAB_PLACE) {
    cudalab::running->copies().hand_over([=](const cudalab::async_copy& copy) { barrier->bind(copy, file, line); });
}
