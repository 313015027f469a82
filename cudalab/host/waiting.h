// What is said of threads that wait: for others that do not come, at another barrier, for memory that does not change.
#pragma once

namespace cudalab {

// CUDA asks all threads of the block to come to the same barrier.
inline void look_for_another_barrier(const fiber* fibers, unsigned count) {
    const fiber *here = nullptr, *other = nullptr;
    for (unsigned t = 0; t < count && !here; ++t)
        if (fibers[t].now == state::at_block) here = &fibers[t];
    for (unsigned t = 0; t < count && !other; ++t)
        if (fibers[t].now == state::done || fibers[t].line != here->line || strcmp(fibers[t].file, here->file))
            other = &fibers[t];
    if (!other) return;
    char where[300];
    if (other->now == state::done) snprintf(where, sizeof where, "has returned; CUDA requires all threads of the "
                                       "block here, but GPUs since Volta accept it");
    else snprintf(where, sizeof where, "at the one in %s:%u; CUDA leaves that undefined", other->file, other->line);
    remark("%s:%u: block (%u,%u,%u): thread (%u,%u,%u) waits at this barrier, and thread (%u,%u,%u) %s", here->file,
           here->line, blockIdx.x, blockIdx.y, blockIdx.z, here->index.x, here->index.y, here->index.z,
           other->index.x, other->index.y, other->index.z, where);
}

// Returns whether there is such a thread.
inline bool tell_who_looks(const fiber* fibers, unsigned count, bool blocks_left, uintptr_t base) {
    unsigned looking = 0;
    const fiber* first = nullptr;
    for (unsigned t = 0; t < count; ++t)
        if ((fibers[t].now == state::looks || (fibers[t].now == state::ready && fibers[t].looked_last)) && ++looking == 1) first = &fibers[t];
    if (!first) return false;
    const char* const left = blocks_left
                                 ? "; other blocks have not started: a GPU does not promise that they run at the same time, or "
                                   "in which order they start (let a block take its number by atomicAdd)"
                                 : "";
    current_outcome->failed.record("block (%u,%u,%u) is stuck: of %u threads %u wait for memory that no thread changes, the first of them, "
                            "(%u,%u,%u), at @%zx@%s", blockIdx.x, blockIdx.y, blockIdx.z, count, looking, first->index.x,
                            first->index.y, first->index.z, size_t(first->code) - size_t(base), left);
    return true;
}

// Of a thread at a warp operation: a lane that it waits for, and where that one is.
inline void tell_who_lacks(char* text, size_t bytes, const fiber* fibers, unsigned count, const fiber& here) {
    const unsigned warp = unsigned(&here - fibers) / 32 * 32;
    for (unsigned t = warp; t < warp + 32 && t < count; ++t) {
        const fiber& other = fibers[t];
        const bool comes = other.now == state::at_warp && other.operation == here.operation && other.mask == here.mask;
        if (!(here.mask >> t % 32 & 1) || other.now == state::done || comes) continue;
        snprintf(text, bytes, ", such as thread (%u,%u,%u) at %s:%u, whose mask 0x%08x names thread (%u,%u,%u), which waits at "
                 "%s:%u", here.index.x, here.index.y, here.index.z, here.file, here.line, here.mask, other.index.x,
                 other.index.y, other.index.z, other.file, other.line);
        return;
    }
}

// Whether all threads of a block have returned; else the launch fails.
inline bool nobody_waits(const fiber* fibers, unsigned count) {
    unsigned number[8] = {};
    const fiber* first[8] = {};  // of those in each state
    for (unsigned t = count; t-- > 0;) ++number[unsigned(fibers[t].now)], first[unsigned(fibers[t].now)] = &fibers[t];
    if (number[unsigned(state::done)] == count) return true;
    char at_warp[200] = "", until[200] = "";
    if (const fiber* one = first[unsigned(state::at_warp)]) tell_who_lacks(at_warp, sizeof at_warp, fibers, count, *one);
    if (const fiber* one = first[unsigned(state::until)])
        snprintf(until, sizeof until, ", %u wait for a phase of a cuda::barrier or a stage of a cuda::pipeline that does not "
                 "end, such as at %s:%u", number[unsigned(state::until)], one->file, one->line);
    current_outcome->failed.record(
        "block (%u,%u,%u) is stuck: of %u threads %u wait at a block barrier (__syncthreads), %u wait at a warp "
        "operation whose mask names lanes that do not arrive%s, %u have returned%s",
        blockIdx.x, blockIdx.y, blockIdx.z, count, number[unsigned(state::at_block)],
        number[unsigned(state::at_warp)], at_warp, number[unsigned(state::done)], until);
    return false;
}

}  // namespace cudalab
