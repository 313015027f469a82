// __syncthreads() and those that count.
#pragma once

inline int __syncthreads_count(int predicate, CUDALAB_PLACE) {
    cudalab::running->me().vote = predicate != 0;
    cudalab::running->wait(cudalab::state::at_block, file, line);
    return int(cudalab::running->votes);
}
inline void __syncthreads(CUDALAB_PLACE) { __syncthreads_count(0, file, line); }
inline int __syncthreads_or(int predicate, CUDALAB_PLACE) { return __syncthreads_count(predicate, file, line) != 0; }
inline int __syncthreads_and(int predicate, CUDALAB_PLACE) {
    return unsigned(__syncthreads_count(predicate, file, line)) == cudalab::running->voters;
}
